#include "tools/shell_input.hpp"

#include <fmt/format.h>
#include <histedit.h>

#include <algorithm>
#include <cerrno>

#include "tools/output.hpp"

namespace stagecraft::tools {

namespace {

class Script final : public ShellInput {
 public:
  Script(std::istream& lines, std::string name) : lines_(lines), name_(std::move(name)) {}

  std::optional<Line> next() override {
    Line line;
    if (!std::getline(lines_, line.text)) return std::nullopt;
    line.where = fmt::format("{}:{}", name_, ++number_);
    return line;
  }

 private:
  std::istream& lines_;
  std::string name_;
  std::uint32_t number_ = 0;
};

// What all words begin with.
std::string common_beginning(const std::vector<std::string>& words) {
  std::string common = words.front();
  for (const std::string& word : words) {
    const auto [end, ignored] = std::mismatch(common.begin(), common.end(), word.begin(), word.end());
    common.erase(end, common.end());
  }
  return common;
}

class Terminal final : public ShellInput {
 public:
  Terminal(std::function<std::vector<std::string>(std::string_view)> complete, std::string history)
      : complete_(std::move(complete)),
        history_file_(std::move(history)),
        history_(history_init()),
        editor_(el_init("stagecraft", stdin, stdout, stderr)) {
    constexpr int kept = 1000;
    HistEvent event;
    ::history(history_, &event, H_SETSIZE, kept);
    ::history(history_, &event, H_SETUNIQUE, 1);
    if (!history_file_.empty()) ::history(history_, &event, H_LOAD, history_file_.c_str());
    el_set(editor_, EL_CLIENTDATA, this);
    el_set(editor_, EL_PROMPT, &Terminal::prompt);
    el_set(editor_, EL_EDITOR, "emacs");
    el_set(editor_, EL_SIGNAL, 1);  // Ctrl-C leaves the terminal as it was, and then does what it does elsewhere
    el_set(editor_, EL_HIST, ::history, history_);
    // Wide: the narrow form copies both texts and never frees them.
    el_wset(editor_, EL_ADDFN, L"complete", L"what may come next", &Terminal::on_tab);
    el_set(editor_, EL_BIND, "^I", "complete", nullptr);
    el_set(editor_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  }
  ~Terminal() override {
    HistEvent event;
    if (!history_file_.empty()) ::history(history_, &event, H_SAVE, history_file_.c_str());
    el_end(editor_);
    history_end(history_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  std::optional<Line> next() override {
    int count = 0;
    errno = 0;
    const char* text = el_gets(editor_, &count);
    if (!text || count <= 0) {
      const bool interrupted = errno == EINTR;
      say("\n");
      if (interrupted) return Line{};
      return std::nullopt;
    }
    Line line{text, {}};
    while (!line.text.empty() && (line.text.back() == '\n' || line.text.back() == '\r')) line.text.pop_back();
    HistEvent event;
    if (!words_of(line.text).empty()) ::history(history_, &event, H_ENTER, line.text.c_str());
    return line;
  }

 private:
  static const char* prompt(EditLine*) { return "stagecraft> "; }
  static unsigned char on_tab(EditLine* editor, int) {
    Terminal* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return self->complete_here();
  }

  unsigned char complete_here() {
    const LineInfo* line = el_line(editor_);
    const std::string_view before(line->buffer, static_cast<std::size_t>(line->cursor - line->buffer));
    const std::vector<std::string> words = complete_(before);
    if (words.empty()) return CC_REFRESH_BEEP;
    const std::size_t begun = before.size() - std::min(before.find_last_of(" \t") + 1, before.size());
    std::string rest = common_beginning(words).substr(begun);
    if (words.size() == 1) rest += ' ';
    if (!rest.empty()) return el_insertstr(editor_, rest.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
    say("\n{}\n", fmt::join(words, "  "));
    std::fflush(stdout);
    return CC_REDISPLAY;
  }

  std::function<std::vector<std::string>(std::string_view)> complete_;
  std::string history_file_;
  History* history_;
  EditLine* editor_;
};

}  // namespace

std::unique_ptr<ShellInput> script_input(std::istream& lines, std::string name) {
  return std::make_unique<Script>(lines, std::move(name));
}

std::unique_ptr<ShellInput> terminal_input(std::function<std::vector<std::string>(std::string_view)> complete,
                                           std::string history) {
  return std::make_unique<Terminal>(std::move(complete), std::move(history));
}

std::vector<std::string> words_of(std::string_view line) {
  constexpr std::string_view blanks = " \t\r\n";
  std::vector<std::string> words;
  for (std::size_t at = line.find_first_not_of(blanks); at != std::string_view::npos;
       at = line.find_first_not_of(blanks, at)) {
    const std::size_t end = std::min(line.find_first_of(blanks, at), line.size());
    if (line[at] == '#') break;
    words.emplace_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

}  // namespace stagecraft::tools
