// From one layout to another: which layers change hands, and which layouts a person can ask for by naming layers. Pure;
// any thread.
//
// Layers are counted from 0 along the model. Only transformer blocks move: the embedding stays on the first chunk and
// the head on the last, and the layers of the chunks stay in the order of the model.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "planning/shape.hpp"

namespace stagecraft {

/// Layers per chunk in model order.
using Layout = std::vector<std::uint32_t>;

/// Layers [begin, end).
struct LayerRun {
  std::uint32_t begin = 0, end = 0;
  std::uint32_t size() const { return end - begin; }
  auto operator<=>(const LayerRun&) const = default;
};

/// A run of layers that changes hands, in every replica alike.
struct Transfer {
  StageId from, to;
  LayerRun layers;
  auto operator<=>(const Transfer&) const = default;
};

/// "layer 3" or "layers 3 to 4".
std::string to_text(LayerRun run);
/// "layers 3 to 4 from stage 2 to stage 1, ..."; "nothing".
std::string to_text(const std::vector<Transfer>& transfers);
/// "[2, 2, 1]"
std::string to_text(const Layout& layout);

/// What has to change hands on the way from one layout to the other, in model order. Both must be layouts of the same
/// shape and model (check_layout).
std::vector<Transfer> transfers_between(const PipelineShape& shape, const Layout& from, const Layout& to);

/// The layout in which `layers` are on a chunk of stage `to` and everything else stays; or why there is none, and what
/// could be asked for instead. The layers must be the last ones of the chunk before one of that stage's, or the first
/// of the chunk behind it: layers keep their order.
std::variant<Layout, std::string> with_layers_moved(const PipelineShape& shape, const Layout& layout, LayerRun layers,
                                                    StageId to);

}  // namespace stagecraft
