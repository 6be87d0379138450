#include "config/yaml_tree.hpp"

#include <fmt/format.h>
// Above the other headers of yaml-cpp: they use what it declares.
#include <yaml-cpp/eventhandler.h>

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "config/text_scan.hpp"
#include "planning/bug.hpp"

namespace stagecraft {
namespace {

// Thrown through the parser, after the reason has been reported, to stop it.
struct Refused {};

// Builds the tree from the parser's events. Building our own (rather than using the library's nodes) keeps duplicate
// keys, tells quoted from plain scalars, and puts limits in force before memory is taken.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, Report& report, std::optional<std::uint32_t> override_number)
      : text_(text), report_(report), override_number_(override_number) {}

  std::optional<YamlNode> take_root() { return std::move(root_); }
  std::size_t last_offset() const { return last_offset_; }
  Position position(int line, int column) const {
    return {override_number_, static_cast<std::uint32_t>(std::max(line, 0)) + 1,
            static_cast<std::uint32_t>(std::max(column, 0)) + 1};
  }
  Position position(const YAML::Mark& mark) const { return position(mark.line, mark.column); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) {
      refuse(ErrorCode::second_document, mark,
             "expected one document, got text after its end; remove '---' or '...', or indent these lines like the "
             "first ones");
    }
  }
  void OnDocumentEnd() override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_alias(mark); }
  void OnAnchor(const YAML::Mark& mark, const std::string&) override { refuse_alias(mark); }
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    count(mark, "");
    YamlNode node;
    node.at = position(mark);
    place(std::move(node));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& value) override {
    count(mark, tag);
    YamlNode node;
    node.kind = YamlNode::Kind::scalar;
    node.plain = tag != "!";
    node.at = position(mark);
    node.text = value;
    if (!node.plain) check_quotes(mark);
    place(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::list, mark, tag);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::map, mark, tag);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    YamlNode node;
    std::optional<YamlNode> key;  // of a map: read, and waiting for its value
  };

  [[noreturn]] void refuse(ErrorCode code, const YAML::Mark& mark, const std::string& message) {
    report_.add(code, position(mark), "", message);
    throw Refused{};
  }
  [[noreturn]] void refuse_alias(const YAML::Mark& mark) {
    refuse(ErrorCode::alias, mark, "expected plain values, got an anchor or alias (& or *); write the value itself");
  }

  void count(const YAML::Mark& mark, const std::string& tag) {
    if (mark.pos >= 0) last_offset_ = static_cast<std::size_t>(mark.pos);
    if (++values_ > most_values) {
      refuse(ErrorCode::too_many_values, mark,
             fmt::format("expected at most {} keys and values, got more; use count for equal devices", most_values));
    }
    if (!tag.empty() && tag != "?" && tag != "!") {
      report_.add(ErrorCode::tag_or_directive, position(mark), "",
                  fmt::format("expected a plain value, got the tag {}; remove it", quoted(tag)));
    }
  }

  // A scalar that the parser calls quoted begins with a quote (or is a block scalar) and has an end.
  void check_quotes(const YAML::Mark& mark) {
    if (mark.pos < 0 || static_cast<std::size_t>(mark.pos) >= text_.size()) return;
    const auto offset = static_cast<std::size_t>(mark.pos);
    const char first = text_[offset];
    if (first == '!') {
      report_.add(ErrorCode::tag_or_directive, position(mark), "", "expected a plain value, got a tag (!); remove it");
    } else if ((first == '"' || first == '\'') && !end_of_quoted(text_, offset)) {
      refuse(ErrorCode::unterminated_quote, mark, "expected a closing quote, got the end of the text; close it");
    }
  }

  void open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag) {
    count(mark, tag);
    if (frames_.size() >= static_cast<std::size_t>(deepest_nesting)) {
      refuse(ErrorCode::too_deep, mark,
             fmt::format("expected at most {} levels of lists and maps, got more; check the brackets and dashes",
                         deepest_nesting));
    }
    Frame frame;
    frame.node.kind = kind;
    frame.node.at = position(mark);
    frames_.push_back(std::move(frame));
  }

  void close() {
    STAGECRAFT_ASSERT(!frames_.empty(), "the parser closed more lists and maps than it opened");
    YamlNode node = std::move(frames_.back().node);
    frames_.pop_back();
    place(std::move(node));
  }

  void place(YamlNode node) {
    if (frames_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& top = frames_.back();
    if (top.node.kind == YamlNode::Kind::list) {
      top.node.items.push_back(std::move(node));
    } else if (!top.key) {
      check_key(node);
      top.key = std::move(node);
    } else {
      // Entries with a key that has been refused are dropped.
      if (top.key->kind == YamlNode::Kind::scalar) {
        top.node.entries.push_back({std::move(top.key->text), top.key->at, std::move(node)});
      }
      top.key.reset();
    }
  }

  void check_key(const YamlNode& key) {
    if (key.kind != YamlNode::Kind::scalar) {
      const std::string_view got = key.kind == YamlNode::Kind::null   ? "nothing"
                                   : key.kind == YamlNode::Kind::list ? "a list"
                                                                      : "a map";
      report_.add(ErrorCode::bad_key, key.at, "", fmt::format("expected a word as key, got {}; write key: value", got));
    } else if (key.plain && key.text == "<<") {
      report_.add(ErrorCode::bad_key, key.at, "", "expected a word as key, got the merge key <<; write the keys out");
    }
  }

  std::string_view text_;
  Report& report_;
  std::optional<std::uint32_t> override_number_;
  std::optional<YamlNode> root_;
  std::vector<Frame> frames_;
  std::size_t last_offset_ = 0;
  int documents_ = 0;
  int values_ = 0;
};

// The line and column (from 0) of an offset.
std::pair<int, int> line_and_column(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const auto line = std::count(before.begin(), before.end(), '\n');
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return {static_cast<int>(line), static_cast<int>(offset - line_start)};
}

std::string_view describe_text_problem(ErrorCode code) {
  switch (code) {
    case ErrorCode::tab_in_indentation:
      return "expected blanks at the beginning of the line, got a tab; indent with blanks";
    case ErrorCode::tag_or_directive:
      return "expected a key or a value, got a directive (%); remove the line";
    default:
      return "expected UTF-8 text, got a byte that is not, or a control character; save the file as UTF-8";
  }
}

// What the parser threw, as one of our codes.
void report_exception(const YAML::Exception& e, std::string_view text, const TreeBuilder& builder, Report& report) {
  const Position at = builder.position(e.mark);
  if (e.msg.find("anchor") != std::string::npos || e.msg.find("alias") != std::string::npos) {
    report.add(ErrorCode::alias, at, "",
               "expected plain values, got an anchor or alias (& or *); write the value itself");
    return;
  }
  if (e.msg.find("EOF in scalar") != std::string::npos) {
    const auto open = find_unterminated_quote(text, builder.last_offset());
    const auto [line, column] = line_and_column(text, open.value_or(text.size()));
    report.add(ErrorCode::unterminated_quote, builder.position(line, column), "",
               "expected a closing quote, got the end of the text; close it");
    return;
  }
  report.add(ErrorCode::not_yaml, at, "",
             fmt::format("expected YAML, got something that can't be read here ({}); check brackets, blanks after "
                         "colons and indentation, here and on the line above",
                         e.msg));
}

// Drives the parser over the whole text.
std::optional<YamlNode> build(std::string_view text, Report& report, std::optional<std::uint32_t> override_number) {
  TreeBuilder builder(text, report, override_number);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
    auto root = builder.take_root();
    if (!root) {
      report.add(ErrorCode::empty_file, Position{override_number, 1, 1}, "",
                 "expected a map of keys, got an empty text; see the folder examples");
    }
    return root;
  } catch (const Refused&) {
  } catch (const YAML::Exception& e) {
    report_exception(e, text, builder, report);
  }
  return std::nullopt;
}

}  // namespace

const YamlNode::Entry* YamlNode::find(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.key == key; });
  return found == entries.end() ? nullptr : &*found;
}

YamlNode::Entry* YamlNode::find(std::string_view key) { return const_cast<Entry*>(std::as_const(*this).find(key)); }

std::optional<YamlNode> parse_yaml(std::string_view text, Report& report,
                                   std::optional<std::uint32_t> override_number) {
  const Position start{override_number, 1, 1};
  if (text.size() > largest_text) {
    report.add(ErrorCode::file_too_large, start, "",
               fmt::format("expected at most {} bytes, got {}; use count for equal devices, and check that this is the "
                           "right file",
                           largest_text, text.size()));
    return std::nullopt;
  }
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark says nothing in UTF-8
  if (const auto problem = scan_text(text)) {
    const auto [line, column] = line_and_column(text, problem->offset);
    const Position at{override_number, static_cast<std::uint32_t>(line) + 1, static_cast<std::uint32_t>(column) + 1};
    report.add(problem->code, at, "", describe_text_problem(problem->code));
    return std::nullopt;
  }
  return build(text, report, override_number);
}

}  // namespace stagecraft
