// The sections model and data, and the checks on the shape of the model.
#include <fmt/format.h>

#include <algorithm>

#include "config/topology_draft.hpp"

namespace stagecraft {
namespace {

// Emulated devices take their costs from a table, so the rest of the model and the data mean nothing there.
template <class T>
void warn_if_unused(const Field<T>& field, const TopologyDraft& draft, Report& report) {
  if (draft.kind != DeviceKind::emulated || !field.given) return;
  report.add(ErrorCode::unused_key, field.at, field.path,
             "expected only model.layers with emulated devices, got a key that has no effect there; remove it, or use "
             "cpu devices");
}

// Required on cpu devices; anywhere else the default will do.
template <class T>
std::optional<T> fallback_unless_cpu(const TopologyDraft& draft, T fallback) {
  if (draft.kind == DeviceKind::cpu) return std::nullopt;
  return fallback;
}

// 8/3 of the width, rounded up to a multiple of 8: three matrices of that width hold as many numbers as the two of a
// plain feed-forward layer of four times the width (Shazeer 2020, GLU Variants Improve Transformer).
std::uint32_t default_hidden(std::uint32_t width) { return (width + 2) / 3 * 8; }

SourceSpec read_source(const Value& value, Report& report) {
  SourceSpec source;
  Section section(value, report);
  source.files = read_line(section, "files", 4096, std::nullopt, report).value;
  if (const auto exclude = section.value("exclude")) {
    if (const auto items = read_list(*exclude, {0, 64}, "globs", report)) {
      for (const Value& item : *items) source.exclude.push_back(read_text(item, 256, report).value_or(""));
    }
  }
  const auto split = section.text("split", 1024, "");
  if (split.given) source.split = split.value;
  section.finish();
  return source;
}

}  // namespace

void read_model(Section& root, TopologyDraft& draft, Report& report) {
  Section model = root.section("model", true);
  const ModelSpec defaults;
  draft.layers = model.integer<std::uint32_t>("layers", 1, 1024);
  draft.width = model.integer<std::uint32_t>("width", 2, 65536, fallback_unless_cpu(draft, defaults.width));
  draft.heads = model.integer<std::uint32_t>("heads", 1, 1024, fallback_unless_cpu(draft, defaults.heads));
  draft.kv_heads = model.integer<std::uint32_t>("kv_heads", 1, 1024, draft.heads.value);
  const auto hidden = model.integer<std::uint32_t>("hidden", 1, 262144, default_hidden(draft.width.value));
  draft.context = model.integer<std::uint32_t>("context", 2, 1 << 20, fallback_unless_cpu(draft, defaults.context));
  const auto vocabulary = model.choice<std::uint32_t>("vocabulary", {{"bytes", 257}}, defaults.vocabulary);
  const auto tied = model.boolean("tied_embeddings", defaults.tied_embeddings);
  const auto theta = model.number("rope_theta", {.low = 1, .high = 1e9}, defaults.rope_theta);
  const auto epsilon = model.number("norm_epsilon", {.low = 0, .high = 1, .open_low = true}, defaults.norm_epsilon);
  model.finish();

  ModelSpec& spec = draft.topology.model;
  spec.layers = draft.layers.value;
  for (const auto& field : {draft.width, draft.heads, draft.kv_heads, hidden, draft.context, vocabulary}) {
    warn_if_unused(field, draft, report);
  }
  warn_if_unused(tied, draft, report);
  warn_if_unused(theta, draft, report);
  warn_if_unused(epsilon, draft, report);
  if (draft.kind == DeviceKind::emulated) {
    spec.hidden = default_hidden(spec.width);
    return;
  }
  spec.width = draft.width.value;
  spec.heads = draft.heads.value;
  spec.kv_heads = draft.kv_heads.value;
  spec.hidden = hidden.value;
  spec.context = draft.context.value;
  spec.vocabulary = vocabulary.value;
  spec.tied_embeddings = tied.value;
  spec.rope_theta = theta.value;
  spec.norm_epsilon = epsilon.value;
}

void read_data(Section& root, TopologyDraft& draft, Report& report) {
  const auto given = draft.kind == DeviceKind::cpu ? root.required_value("data", "sources and micro_batch_tokens")
                                                   : root.value("data");
  if (!given) return;
  if (draft.kind == DeviceKind::emulated) {
    warn_if_unused(Field<int>{.at = given->at, .path = given->path, .given = true}, draft, report);
  }
  Section data(*given, report);
  DataSpec spec;
  if (const auto sources = data.required_value("sources", "a list of { files, exclude, split }")) {
    if (const auto items = read_list(*sources, {1, 1024}, "sources", report)) {
      for (const Value& item : *items) spec.sources.push_back(read_source(item, report));
    }
  }
  draft.micro_batch_tokens = data.integer<std::uint32_t>("micro_batch_tokens", 2, 1 << 24);
  spec.micro_batch_tokens = draft.micro_batch_tokens.value;
  data.finish();
  if (draft.kind != DeviceKind::emulated) draft.topology.data = std::move(spec);
}

void check_model(TopologyDraft& draft, Report& report) {
  if (draft.kind == DeviceKind::emulated) return;
  const auto& width = draft.width;
  const auto& heads = draft.heads;
  if (width && heads && width.value % heads.value != 0) {
    report.add(
        ErrorCode::heads_and_width, heads.at, heads.path,
        fmt::format("expected a divisor of model.width = {}, got {} (remainder {}); choose another number of heads "
                    "or width",
                    width.value, heads.value, width.value % heads.value));
  } else if (width && heads && width.value / heads.value % 2 != 0) {
    report.add(ErrorCode::odd_head_size, heads.at, heads.path,
               fmt::format("expected an even head size, got {} = {} / {}; choose another number of heads or width",
                           width.value / heads.value, width.value, heads.value));
  }
  const auto& kv_heads = draft.kv_heads;
  if (heads && kv_heads && heads.value % kv_heads.value != 0) {
    report.add(ErrorCode::kv_heads_and_heads, kv_heads.at, kv_heads.path,
               fmt::format("expected a divisor of model.heads = {}, got {}; choose one, or leave the key out",
                           heads.value, kv_heads.value));
  }
  const auto& tokens = draft.micro_batch_tokens;
  if (tokens && draft.context && tokens.value < draft.context.value) {
    report.add(ErrorCode::micro_batch_too_small, tokens.at, tokens.path,
               fmt::format("expected at least model.context = {}, got {}; raise it or shorten the context",
                           draft.context.value, tokens.value));
  }
}

}  // namespace stagecraft
