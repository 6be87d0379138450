// The training text: files -> documents -> pieces -> packed micro-batches of byte tokens.
//
// Who knocks: the loader. What it answers: any micro-batch of any iteration, always the same for the same text,
// settings and seed. What it owns: the bytes, once. What it never does: lose, repeat or pad a token within an epoch.
// Thread promise: one owner thread, also for const calls (they keep the packings of the last epochs); loading blocks
// on the disk.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "config/topology.hpp"
#include "model/batch.hpp"
#include "planning/ids.hpp"
#include "transport/disk.hpp"

namespace stagecraft {

class Sha256;

/// Stands before and after each document. Tokens below it are bytes.
inline constexpr Token separator_token = 256;

/// What the order of the text depends on beside the text: the job's seed and its micro-batches per iteration.
struct BatchOrder {
  std::uint64_t seed = 1;
  std::uint32_t micro_batches = 1;
};

struct CorpusCounts {
  std::uint64_t files = 0;
  std::uint64_t documents = 0;
  std::uint64_t empty_documents = 0;  ///< dropped: nothing to predict
  std::uint64_t pieces = 0;
  std::uint64_t bytes = 0;   ///< of the documents, without what split them
  std::uint64_t tokens = 0;  ///< predicted per epoch: every byte and one separator per document
};

/// One sentence each: what, where, why and what to try.
using CorpusErrors = std::vector<std::string>;

/// A document of n bytes is the sequence [256, b0 .. bn-1, 256]; all but the last are inputs, all but the first are
/// targets. Its n+1 inputs are cut into pieces of at most `context` (and at most a micro-batch). Each epoch takes all
/// pieces in an order of its own, keyed(seed, epoch, piece) ascending, and packs them next-fit: a piece that does not
/// fit closes the micro-batch. The last micro-batch of an epoch may be short. Epochs follow each other without end;
/// iteration k (from 1) of M micro-batches takes numbers (k-1)M .. kM-1 of this row.
class Corpus {
 public:
  /// Files of each source sorted by path; a file that two sources name counts twice.
  static std::variant<Corpus, CorpusErrors> load(const DataSpec& data, const ModelSpec& model, Disk& disk,
                                                 BatchOrder order);

  /// A pure function of text, settings, seed and (iteration, micro_batch), in whatever order it is asked. The first
  /// call for a late iteration walks through all epochs before it. `iteration` counts from 1, micro_batch < M.
  TokenBatch batch(Iteration iteration, MicroBatch micro_batch) const;

  const CorpusCounts& counts() const { return counts_; }
  /// Of the contents of the files and how they are split, in hex. Belongs to the record of a run.
  const std::string& sha256() const { return sha256_; }
  /// What is missing when an epoch has fewer tokens than the micro-batches of one iteration may hold.
  std::optional<std::string> shortage() const;
  bool enough() const { return !shortage(); }

  /// Micro-batches of one epoch (counted from 0).
  std::uint64_t micro_batches_of(std::uint64_t epoch) const;
  /// Indices of the pieces in one micro-batch of an epoch, in order. For tests and records of what was seen.
  std::vector<std::uint32_t> pieces_of(std::uint64_t epoch, std::uint64_t number) const;

 private:
  // Inputs [offset - 1, offset - 1 + length) and targets [offset, offset + length) of the text, but the first input of
  // a document and its last target are the separator.
  struct Piece {
    std::uint64_t offset;
    std::uint32_t length;
    bool first, last;
  };
  struct EpochPacking {
    std::uint64_t epoch = 0;
    std::vector<std::uint32_t> order;   // of the pieces
    std::vector<std::uint32_t> begins;  // of micro-batches in `order`, and its end
    std::uint64_t micro_batches() const { return begins.size() - 1; }
  };

  Corpus() = default;
  void read_source(const SourceSpec& source, std::size_t number, Disk& disk, CorpusErrors& errors, Sha256& hash);
  void add_file(std::string_view content, const std::optional<std::string>& split);
  void add_document(std::string_view document);
  const EpochPacking& packing(std::uint64_t epoch) const;
  EpochPacking pack(std::uint64_t epoch) const;

  std::uint32_t piece_limit_ = 1, capacity_ = 1;
  BatchOrder order_;
  std::string text_;  // all documents, one after the other
  std::vector<Piece> pieces_;
  CorpusCounts counts_;
  std::string sha256_;
  mutable std::vector<EpochPacking> recent_;  // at most two, the newest last
  mutable std::vector<std::uint64_t> first_number_{
      0};  // of the micro-batches of each epoch walked through, and the end
};

}  // namespace stagecraft
