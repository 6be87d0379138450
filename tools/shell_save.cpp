#include "tools/shell_save.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <ctime>

#include "transport/disk.hpp"

namespace stagecraft::tools {

namespace {

// What a script begins with. One line, whatever is in it.
std::string comment_of(const std::string& about) {
  std::string text = fmt::format("# {:%Y-%m-%d %H:%M:%S} UTC, {}", fmt::gmtime(std::time(nullptr)), about);
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return text + '\n';
}

Answer not_written(const std::string& path, int code) {
  if (code == EEXIST)
    return {Outcome::refused,
            fmt::format("'{}' is there already, and nothing is written over: name another file", path)};
  const bool is_full = code == ENOSPC || code == EIO || code == EDQUOT || code == EFBIG;
  return {is_full ? Outcome::given_up : Outcome::refused, disk_error("write", path, code).text()};
}

}  // namespace

Answer save_lines(const std::string& path, std::span<const std::string> lines, const std::string& about) {
  if (lines.empty()) return {Outcome::refused, "there is nothing to keep: no line has been obeyed yet"};
  std::FILE* file = std::fopen(path.c_str(), "wxe");  // new, and for no child of ours
  if (!file) return not_written(path, errno);
  std::string text = comment_of(about);
  for (const std::string& line : lines) text += line + '\n';
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  int code = written ? 0 : errno;
  if (std::fclose(file) != 0 && code == 0) code = errno;
  if (code != 0) {
    std::remove(path.c_str());
    return not_written(path, code);
  }
  return {Outcome::done, fmt::format("{} {} kept in '{}'", lines.size(), lines.size() == 1 ? "line" : "lines", path),
          Json{{"path", path}, {"lines", lines.size()}}};
}

}  // namespace stagecraft::tools
