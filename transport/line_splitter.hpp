// Makes lines of bytes that come in pieces, within a limit. A value; one owner.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace stagecraft {

class LineSplitter {
 public:
  /// `most`: bytes of a line, without its end.
  explicit LineSplitter(std::size_t most) : most_(most) {}

  struct Line {
    std::string text;       ///< without its end; empty where it was too long
    bool too_long = false;  ///< told at once; the rest, up to its end, is dropped as it comes
  };

  void feed(std::string_view bytes) {
    if (!dropping_) {
      bytes_ += bytes;
    } else if (const std::size_t end = bytes.find('\n'); end != std::string_view::npos) {
      dropping_ = false;
      bytes_ += bytes.substr(end + 1);
    }
  }

  /// The next line that is there; empty ones are passed over.
  std::optional<Line> next() {
    while (true) {
      const std::size_t end = bytes_.find('\n');
      if (end == std::string::npos && bytes_.size() <= most_ + 1) return std::nullopt;
      std::string text = bytes_.substr(0, end);
      bytes_.erase(0, end == std::string::npos ? end : end + 1);
      dropping_ = end == std::string::npos;
      if (text.ends_with('\r')) text.pop_back();
      if (text.size() > most_) return Line{{}, true};
      if (!text.empty()) return Line{std::move(text), false};
    }
  }

  /// Part of a line is there, or of one that is being dropped.
  bool is_within_line() const { return dropping_ || !bytes_.empty(); }
  /// Bytes that are held.
  std::size_t size() const { return bytes_.size(); }

 private:
  std::size_t most_;
  std::string bytes_;
  bool dropping_ = false;
};

}  // namespace stagecraft
