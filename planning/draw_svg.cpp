#include "planning/draw_svg.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "planning/timeline_rows.hpp"

namespace stagecraft {

namespace {

struct Colour {
  int red, green, blue;
};

// Brightness falls from F over B and X to W, so that they differ without colour too.
Colour colour_of(OperatorKind kind) {
  switch (kind) {
    case OperatorKind::forward:
      return {176, 215, 242};  // sky
    case OperatorKind::backward_input:
      return {228, 122, 40};  // orange
    case OperatorKind::backward:
      return {128, 80, 160};  // purple
    case OperatorKind::backward_weight:
      return {18, 72, 80};  // dark teal
  }
  return {};
}
constexpr Colour overhead_colour{110, 110, 110};

double brightness(Colour c) { return 0.299 * c.red + 0.587 * c.green + 0.114 * c.blue; }

// 0 for the first chunk of a stage, 1 for the last.
double share_of(std::size_t chunk, std::size_t chunks) {
  return chunks < 2 ? 0 : static_cast<double>(chunk) / static_cast<double>(chunks - 1);
}
// The first chunk of a stage has the full colour, its later ones less light: not so dark as the next kind.
Colour shaded(Colour c, std::size_t chunk, std::size_t chunks) {
  const double light = 1 - 0.16 * share_of(chunk, chunks);
  const auto dim = [&](int part) { return static_cast<int>(std::lround(part * light)); };
  return {dim(c.red), dim(c.green), dim(c.blue)};
}

std::string hex(Colour c) { return fmt::format("#{:02x}{:02x}{:02x}", c.red, c.green, c.blue); }

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:  // XML has no other control characters than these
        out += static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t' ? c : ' ';
    }
  }
  return out;
}

// In px, to a hundredth, without zeros at the end.
std::string px(double value) {
  std::string text = fmt::format("{:.2f}", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

class Picture {
 public:
  Picture(TimelineRows chart, const SvgOptions& options)
      : chart_(std::move(chart)), options_(options), width_(std::max(options.width, 400U)) {
    std::size_t longest = 0;
    for (const auto& [place, row] : chart_.rows) {
      longest = std::max(longest, row_name(chart_, place).size());
      std::set<ChunkId>& chunks = chunks_[place];
      for (const TimedOperator& timed : row)
        if (!timed.overhead) chunks.insert(timed.op.chunk);
      most_chunks_ = std::max(most_chunks_, chunks.size());
    }
    left_ = 14 + letter_width * static_cast<double>(longest);
    right_ = width_ - 14 - letter_width * 11;  // "idle 99.9 %"
    top_ = options.title.empty() ? 12 : 40;
    bottom_ = top_ + row_pitch * static_cast<double>(chart_.rows.size());
  }

  std::string draw() {
    if (!options_.title.empty()) text(px(left_), top_ - 16, R"( font-size="15" font-weight="bold")", options_.title);
    axis();
    double y = top_;
    for (const auto& [place, row] : chart_.rows) {
      draw_row(place, row, y);
      y += row_pitch;
    }
    const double height = legend(bottom_ + 46) + 14;
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
        "font-family=\"sans-serif\" font-size=\"12\" fill=\"#202020\">\n"
        "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n{2}</svg>\n",
        px(width_), px(height), body_);
  }

 private:
  static constexpr double row_pitch = 34, row_height = 26, letter_width = 7;
  static constexpr double chunk_step = 6;  // the last chunk's boxes are so much lower
  static constexpr std::array<double, 3> label_sizes{11, 9, 7};

  double x(Instant t) const {
    return left_ +
           (right_ - left_) * static_cast<double>((t - chart_.begin).count()) / static_cast<double>(chart_.length());
  }
  void text(std::string_view at, double y, std::string_view style, std::string_view what) {
    body_ += fmt::format("<text x=\"{}\" y=\"{}\"{}>{}</text>\n", at, px(y), style, escaped(what));
  }

  // Ticks at least 70 px apart, as lines behind the rows.
  void axis() {
    const std::int64_t step = tick_step(70 * static_cast<double>(chart_.length()) / (right_ - left_));
    for (std::int64_t t = 0; t <= chart_.length(); t += step) {
      const std::string at = px(x(chart_.begin + Duration{t}));
      body_ += fmt::format("<path d=\"M{} {}V{}\" stroke=\"#d8d8d8\"/>\n", at, px(top_ - 4), px(bottom_ + 2));
      text(at, bottom_ + 17, R"( text-anchor="middle")", fmt::format("{}", static_cast<double>(t) / 1e6));
    }
    text(px(right_ + 10), bottom_ + 17, "", "ms");
  }

  void draw_row(Place place, const std::vector<TimedOperator>& row, double y) {
    const double middle = y + row_height / 2 + 4;
    text("8", middle, "", row_name(chart_, place));
    body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#f4f4f4\"/>\n", px(left_), px(y),
                         px(right_ - left_), px(row_height));
    for (const TimedOperator& timed : row) draw_box(place, timed, y);
    text(px(right_ + 10), middle, "", "idle " + percent(idle_time(chart_, row), chart_.length()));
  }

  void draw_box(Place place, const TimedOperator& timed, double y) {
    const std::set<ChunkId>& chunks = chunks_.at(place);
    const auto chunk = static_cast<std::size_t>(std::distance(chunks.begin(), chunks.find(timed.op.chunk)));
    const Colour fill = timed.overhead ? overhead_colour : shaded(colour_of(timed.op.kind), chunk, most_chunks_);
    const double from = x(timed.start), wide = x(timed.end) - from;
    const double lower = timed.overhead ? 0 : chunk_step * share_of(chunk, most_chunks_);
    body_ += fmt::format("<g><title>{}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"{}/>",
                         escaped(hover(timed)), px(from), px(y + lower), px(std::max(wide, 0.3)),
                         px(row_height - lower), hex(fill), wide >= 3 ? R"( stroke="#ffffff" stroke-width="0.7")" : "");
    if (!timed.overhead) draw_label(timed.op, from + wide / 2, wide, y + (row_height + lower) / 2, fill);
    body_ += "</g>\n";
  }

  // The micro-batch, in the largest letters that fit.
  void draw_label(const Operator& op, double middle, double wide, double y, Colour fill) {
    const std::string label = std::to_string(op.micro_batch.value);
    const auto size = std::find_if(label_sizes.begin(), label_sizes.end(),
                                   [&](double s) { return 0.6 * s * static_cast<double>(label.size()) < wide - 0.4; });
    if (size == label_sizes.end()) return;
    body_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"middle\"{}>{}</text>", px(middle),
                         px(y + 0.36 * *size), px(*size), brightness(fill) < 112 ? R"( fill="#ffffff")" : "", label);
  }

  std::string hover(const TimedOperator& timed) const {
    const std::string when =
        fmt::format("starts at {}, takes {}", format(timed.start - chart_.begin), format(timed.end - timed.start));
    if (timed.overhead) return fmt::format("reduce, norm and step on {}: {}", row_name(chart_, timed.place), when);
    return fmt::format("{} on {}, {} of micro-batch {}: {}", to_text(timed.op), row_name(chart_, timed.place),
                       name_of(timed.op.kind), timed.op.micro_batch.value, when);
  }

  // What appears, a swatch per chunk of a stage; then the whole. Returns where it ends.
  double legend(double y) {
    std::set<OperatorKind> kinds;
    bool overhead = false;
    std::int64_t idle = 0;
    for (const auto& [place, row] : chart_.rows) {
      idle += idle_time(chart_, row);
      for (const TimedOperator& timed : row) {
        overhead |= timed.overhead;
        if (!timed.overhead) kinds.insert(timed.op.kind);
      }
    }
    double at = left_;
    for (const OperatorKind kind : kinds) {
      for (std::size_t c = 0; c < std::max<std::size_t>(most_chunks_, 1); ++c)
        at = swatch(at, y, shaded(colour_of(kind), c, most_chunks_));
      at = caption(at, y, fmt::format("{} {}", letter(kind), name_of(kind)));
    }
    if (overhead) at = caption(swatch(at, y, overhead_colour), y, "reduce, norm and step");
    std::string rest = "number: micro-batch";
    if (most_chunks_ > 1) rest += "; darker and lower: a later chunk of the stage";
    const std::int64_t all = chart_.length() * static_cast<std::int64_t>(chart_.rows.size());
    text(px(left_), y + 22, "",
         fmt::format("{}; {} in all, idle {} over all stages", rest, format(chart_.end - chart_.begin),
                     percent(idle, all)));
    return y + 22;
  }
  double swatch(double at, double y, Colour colour) {
    body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"16\" height=\"12\" fill=\"{}\"/>\n", px(at), px(y - 10),
                         hex(colour));
    return at + 18;
  }
  double caption(double at, double y, const std::string& what) {
    text(px(at + 4), y, "", what);
    return at + 24 + letter_width * static_cast<double>(what.size());
  }

  TimelineRows chart_;
  const SvgOptions& options_;
  double width_, left_ = 0, right_ = 0, top_ = 0, bottom_ = 0;
  std::map<Place, std::set<ChunkId>> chunks_;
  std::size_t most_chunks_ = 0;  // of any row
  std::string body_;
};

}  // namespace

std::string draw_svg(std::vector<TimedOperator> operators, const SvgOptions& options) {
  if (operators.empty())
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"400\" height=\"40\" font-family=\"sans-serif\">"
           "<text x=\"12\" y=\"25\">no operator ran</text></svg>\n";
  return Picture(rows_of(std::move(operators)), options).draw();
}

}  // namespace stagecraft
