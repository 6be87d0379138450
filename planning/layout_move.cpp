#include "planning/layout_move.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <optional>

#include "planning/bug.hpp"

namespace stagecraft {

namespace {

// The chunk of every layer.
std::vector<std::uint32_t> chunks_of_layers(const Layout& layout) {
  std::vector<std::uint32_t> chunks;
  for (std::uint32_t c = 0; c < layout.size(); ++c) chunks.insert(chunks.end(), layout[c], c);
  return chunks;
}

std::vector<LayerRun> runs_of(const Layout& layout) {
  std::vector<LayerRun> runs;
  std::uint32_t next = 0;
  for (const std::uint32_t layers : layout) {
    runs.push_back({next, next + layers});
    next += layers;
  }
  return runs;
}

// What a stage could get: the end of the chunk before each of its own, or the beginning of the one behind.
std::string offers(const PipelineShape& shape, const std::vector<LayerRun>& runs, StageId to) {
  std::vector<std::string> all;
  for (std::uint32_t c = 0; c < runs.size(); ++c) {
    if (shape.stage_of({c}) != to) continue;
    if (c > 0 && runs[c - 1].size() > 0 && !shape.is_inside(c - 1))
      all.push_back(fmt::format("the last of {} of stage {}", to_text(runs[c - 1]), shape.stage_of({c - 1}).value));
    if (c + 1 < runs.size() && runs[c + 1].size() > 0 && !shape.is_inside(c))
      all.push_back(fmt::format("the first of {} of stage {}", to_text(runs[c + 1]), shape.stage_of({c + 1}).value));
  }
  return all.empty() ? "nothing: its neighbours have no layer" : fmt::format("{}", fmt::join(all, ", or "));
}

// The chunk that is to get them, and the one that has them.
struct Shift {
  std::uint32_t from = 0, to = 0;
};

std::optional<Shift> shift_of(const PipelineShape& shape, const std::vector<LayerRun>& runs, LayerRun layers,
                              StageId to) {
  for (std::uint32_t c = 0; c < runs.size(); ++c) {
    if (shape.stage_of({c}) != to) continue;
    if (c > 0 && runs[c - 1].end == layers.end && runs[c - 1].begin <= layers.begin) return Shift{c - 1, c};
    if (c + 1 < runs.size() && runs[c + 1].begin == layers.begin && layers.end <= runs[c + 1].end)
      return Shift{c + 1, c};
  }
  return std::nullopt;
}

}  // namespace

std::string to_text(LayerRun run) {
  if (run.size() == 1) return fmt::format("layer {}", run.begin);
  return run.size() == 0 ? std::string("no layer") : fmt::format("layers {} to {}", run.begin, run.end - 1);
}

std::string to_text(const std::vector<Transfer>& transfers) {
  std::vector<std::string> texts;
  for (const Transfer& t : transfers)
    texts.push_back(fmt::format("{} from stage {} to stage {}", to_text(t.layers), t.from.value, t.to.value));
  return texts.empty() ? "nothing" : fmt::format("{}", fmt::join(texts, ", "));
}

std::string to_text(const Layout& layout) { return fmt::format("[{}]", fmt::join(layout, ", ")); }

std::vector<Transfer> transfers_between(const PipelineShape& shape, const Layout& from, const Layout& to) {
  const auto before = chunks_of_layers(from), after = chunks_of_layers(to);
  STAGECRAFT_ASSERT(before.size() == after.size() && from.size() == to.size(),
                    "layouts {} and {} are not of one model and shape", to_text(from), to_text(to));
  std::vector<Transfer> all;
  for (std::uint32_t layer = 0; layer < before.size(); ++layer) {
    const StageId source = shape.stage_of({before[layer]}), destination = shape.stage_of({after[layer]});
    if (source == destination) continue;
    const bool goes_on =
        !all.empty() && all.back().from == source && all.back().to == destination && all.back().layers.end == layer;
    if (goes_on) {
      ++all.back().layers.end;
    } else {
      all.push_back({source, destination, {layer, layer + 1}});
    }
  }
  return all;
}

std::variant<Layout, std::string> with_layers_moved(const PipelineShape& shape, const Layout& layout, LayerRun layers,
                                                    StageId to) {
  const std::uint32_t all = std::accumulate(layout.begin(), layout.end(), 0U);
  if (to.value >= shape.stages) return fmt::format("expected a stage from 0 to {}, got {}", shape.stages - 1, to.value);
  if (layers.size() == 0 || layers.begin > layers.end || layers.end > all)
    return fmt::format("expected layers from 0 to {}, got {} to {}", all - 1, layers.begin,
                       std::int64_t{layers.end} - 1);
  const std::vector<LayerRun> runs = runs_of(layout);
  const auto shift = shift_of(shape, runs, layers, to);
  if (!shift)
    return fmt::format(
        "{} can't go to stage {} without others (layout {}), as layers keep their order; it can get {}; "
        "or give a whole layout",
        to_text(layers), to.value, to_text(layout), offers(shape, runs, to));
  if (shape.stage_of({shift->from}) == to)
    return fmt::format("{} can't go to stage {}: {} there already", to_text(layers), to.value,
                       layers.size() == 1 ? "it is" : "they are");
  Layout result = layout;
  result[shift->from] -= layers.size();
  result[shift->to] += layers.size();
  return result;
}

}  // namespace stagecraft
