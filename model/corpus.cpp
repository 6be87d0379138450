#include "model/corpus.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include "model/sha256.hpp"
#include "planning/bug.hpp"
#include "planning/random.hpp"

namespace stagecraft {
namespace {

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_excluded(const SourceSpec& source, const std::string& path) {
  const std::string name(file_name(path));
  return std::any_of(source.exclude.begin(), source.exclude.end(),
                     [&](const std::string& pattern) { return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
}

std::string nothing_matches(const SourceSpec& source, std::size_t number, std::size_t excluded) {
  const std::string where = fmt::format("data.sources[{}]: no file matches '{}'", number, source.files);
  if (excluded > 0) return fmt::format("{}: all {} are excluded; shorten `exclude`", where, excluded);
  return where + "; check the path (a folder is named as folder/*) and that the package with the text is installed";
}

}  // namespace

std::variant<Corpus, CorpusErrors> Corpus::load(const DataSpec& data, const ModelSpec& model, Disk& disk,
                                                BatchOrder order) {
  STAGECRAFT_ASSERT(order.micro_batches > 0, "an iteration without micro-batches");
  CorpusErrors errors;
  if (model.vocabulary <= separator_token) {
    errors.push_back(
        fmt::format("model.vocabulary is {}, but bytes and their separator need {}; use `vocabulary: bytes`",
                    model.vocabulary, separator_token + 1));
  }
  if (data.micro_batch_tokens == 0) errors.push_back("data.micro_batch_tokens is 0; give at least 1");
  if (model.context == 0) errors.push_back("model.context is 0; give at least 1");
  if (data.sources.empty()) errors.push_back("data.sources is empty; name at least one file");
  if (!errors.empty()) return errors;

  Corpus corpus;
  corpus.order_ = order;
  corpus.capacity_ = data.micro_batch_tokens;
  corpus.piece_limit_ = std::min(model.context, data.micro_batch_tokens);
  Sha256 hash;
  for (std::size_t i = 0; i < data.sources.size(); ++i) corpus.read_source(data.sources[i], i, disk, errors, hash);
  if (!errors.empty()) return errors;
  if (corpus.pieces_.empty()) {
    return CorpusErrors{
        fmt::format("data.sources: all {} files are empty; name files with text", corpus.counts_.files)};
  }
  if (corpus.pieces_.size() > std::numeric_limits<std::uint32_t>::max()) {
    return CorpusErrors{
        fmt::format("data.sources: {} pieces of text are more than {}; raise model.context or name less",
                    corpus.pieces_.size(), std::numeric_limits<std::uint32_t>::max())};
  }
  corpus.text_.shrink_to_fit();
  corpus.pieces_.shrink_to_fit();
  corpus.counts_.pieces = corpus.pieces_.size();
  corpus.sha256_ = hash.hex();
  return corpus;
}

// The hash takes lengths before contents, so that no two different sets of files look alike.
void Corpus::read_source(const SourceSpec& source, std::size_t number, Disk& disk, CorpusErrors& errors, Sha256& hash) {
  if (source.split && source.split->empty()) {
    errors.push_back(
        fmt::format("data.sources[{}].split is empty; give the text between documents or leave it out", number));
    return;
  }
  std::vector<std::string> paths = disk.glob(source.files);
  const std::size_t excluded = std::erase_if(paths, [&](const std::string& path) { return is_excluded(source, path); });
  if (paths.empty()) errors.push_back(nothing_matches(source, number, excluded));

  hash.update(std::uint64_t{source.split.has_value()});
  if (source.split) hash.update(std::uint64_t{source.split->size()}).update(*source.split);
  hash.update(std::uint64_t{paths.size()});
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    const auto content = disk.read(path);
    if (!content) {
      errors.push_back(fmt::format("data.sources[{}]: {}", number, content.error().text()));
      continue;
    }
    hash.update(std::uint64_t{content.value().size()}).update(content.value());
    add_file(content.value(), source.split);
  }
}

void Corpus::add_file(std::string_view content, const std::optional<std::string>& split) {
  ++counts_.files;
  while (split) {
    const std::size_t at = content.find(*split);
    if (at == std::string_view::npos) break;
    add_document(content.substr(0, at));
    content.remove_prefix(at + split->size());
  }
  add_document(content);
}

void Corpus::add_document(std::string_view document) {
  if (document.empty()) {
    ++counts_.empty_documents;
    return;
  }
  const std::uint64_t begin = text_.size(), inputs = document.size() + 1;
  text_ += document;
  for (std::uint64_t at = 0; at < inputs; at += piece_limit_) {
    const auto length = static_cast<std::uint32_t>(std::min<std::uint64_t>(piece_limit_, inputs - at));
    pieces_.push_back({begin + at, length, at == 0, at + length == inputs});
  }
  ++counts_.documents;
  counts_.bytes += document.size();
  counts_.tokens += inputs;
}

Corpus::EpochPacking Corpus::pack(std::uint64_t epoch) const {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> keys(pieces_.size());
  for (std::uint32_t i = 0; i < keys.size(); ++i) keys[i] = {keyed(order_.seed, epoch, i), i};
  std::sort(keys.begin(), keys.end());

  EpochPacking packing{epoch, {}, {}};
  packing.order.reserve(keys.size());
  std::uint64_t filled = capacity_;  // so that the first piece opens a micro-batch
  for (const auto& [key, piece] : keys) {
    const std::uint32_t length = pieces_[piece].length;
    if (filled + length > capacity_) {
      packing.begins.push_back(static_cast<std::uint32_t>(packing.order.size()));
      filled = 0;
    }
    packing.order.push_back(piece);
    filled += length;
  }
  packing.begins.push_back(static_cast<std::uint32_t>(packing.order.size()));
  return packing;
}

const Corpus::EpochPacking& Corpus::packing(std::uint64_t epoch) const {
  const auto found =
      std::find_if(recent_.begin(), recent_.end(), [&](const EpochPacking& packing) { return packing.epoch == epoch; });
  if (found != recent_.end()) return *found;
  if (recent_.size() == 2) recent_.erase(recent_.begin());
  return recent_.emplace_back(pack(epoch));
}

std::uint64_t Corpus::micro_batches_of(std::uint64_t epoch) const { return packing(epoch).micro_batches(); }

std::vector<std::uint32_t> Corpus::pieces_of(std::uint64_t epoch, std::uint64_t number) const {
  const EpochPacking& packed = packing(epoch);
  STAGECRAFT_ASSERT(number < packed.micro_batches(), "micro-batch {} of {} in epoch {}", number, packed.micro_batches(),
                    epoch);
  return {packed.order.begin() + packed.begins[number], packed.order.begin() + packed.begins[number + 1]};
}

TokenBatch Corpus::batch(Iteration iteration, MicroBatch micro_batch) const {
  STAGECRAFT_ASSERT(iteration.value > 0 && micro_batch.value < order_.micro_batches,
                    "micro-batch {} of iteration {}, but iterations count from 1 and have {}", micro_batch.value,
                    iteration.value, order_.micro_batches);
  const std::uint64_t number = (iteration.value - std::uint64_t{1}) * order_.micro_batches + micro_batch.value;
  while (first_number_.back() <= number) {
    first_number_.push_back(first_number_.back() + micro_batches_of(first_number_.size() - 1));
  }
  const auto after = std::upper_bound(first_number_.begin(), first_number_.end(), number);
  const auto epoch = static_cast<std::uint64_t>(after - first_number_.begin()) - 1;

  Packing starts;
  TokenBatch result{iteration, micro_batch, nullptr, {}, {}};
  for (const std::uint32_t index : pieces_of(epoch, number - first_number_[epoch])) {
    const Piece& piece = pieces_[index];
    const auto byte = [&](std::uint64_t at) -> Token { return static_cast<unsigned char>(text_[at]); };
    for (std::uint32_t i = 0; i < piece.length; ++i) {
      const std::uint64_t at = piece.offset + i;
      result.inputs.push_back(piece.first && i == 0 ? separator_token : byte(at - 1));
      result.targets.push_back(piece.last && i + 1 == piece.length ? separator_token : byte(at));
    }
    starts.starts.push_back(starts.tokens() + piece.length);
  }
  result.packing = std::make_shared<const Packing>(std::move(starts));
  return result;
}

std::optional<std::string> Corpus::shortage() const {
  const std::uint64_t needed = std::uint64_t{order_.micro_batches} * capacity_;
  if (counts_.tokens >= needed) return std::nullopt;
  return fmt::format(
      "data.sources: {} tokens are fewer than the {} of one iteration (training.micro_batches {} x "
      "data.micro_batch_tokens {}); add text or lower one of the two",
      counts_.tokens, needed, order_.micro_batches, capacity_);
}

}  // namespace stagecraft
