#include "model/corpus.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "planning/random.hpp"
#include "transport/memory_disk.hpp"
#include "transport/real_disk.hpp"

namespace stagecraft {
namespace {

ModelSpec model_with(std::uint32_t context) {
  ModelSpec model;
  model.context = context;
  return model;
}

// Names "docs/*", split at newlines.
DataSpec lines_in_docs(std::uint32_t micro_batch_tokens) { return {{{"docs/*", {}, "\n"}}, micro_batch_tokens}; }

class CorpusTest : public testing::Test {
 protected:
  CorpusTest() { EXPECT_FALSE(disk.make_directories("docs")); }

  void write(const std::string& name, const std::string& text) { ASSERT_FALSE(disk.write_whole("docs/" + name, text)); }

  Corpus load(const DataSpec& data, std::uint32_t context, BatchOrder order = {7, 3}) {
    auto loaded = Corpus::load(data, model_with(context), disk, order);
    for (const auto& error : errors_of(loaded)) ADD_FAILURE() << error;
    return std::get<Corpus>(std::move(loaded));
  }

  static CorpusErrors errors_of(const std::variant<Corpus, CorpusErrors>& loaded) {
    const auto* errors = std::get_if<CorpusErrors>(&loaded);
    return errors ? *errors : CorpusErrors{};
  }

  // 200 lines of 1 to 90 letters: shorter and longer than the contexts of the tests.
  void write_uneven_lines() {
    std::string text;
    Entropy entropy(5, "lines");
    for (int line = 0; line < 200; ++line) {
      for (auto n = entropy.between(1, 90); n > 0; --n) text += static_cast<char>('a' + entropy.below(26));
      text += '\n';
    }
    write("lines", text);
  }

  MemoryDisk disk;
};

std::vector<Token> tokens(std::initializer_list<int> values) { return {values.begin(), values.end()}; }

TEST_F(CorpusTest, a_document_is_its_bytes_between_two_separators) {
  write("a", "hi\xff");
  const Corpus corpus = load(lines_in_docs(16), 8);
  const TokenBatch batch = corpus.batch({1}, {0});
  EXPECT_EQ(batch.inputs, tokens({256, 'h', 'i', 255}));
  EXPECT_EQ(batch.targets, tokens({'h', 'i', 255, 256}));
  EXPECT_EQ(batch.packing->starts, (std::vector<std::uint32_t>{0, 4}));
  EXPECT_EQ(corpus.counts().tokens, 4u);
}

TEST_F(CorpusTest, a_document_longer_than_the_context_is_cut_never_dropped) {
  write("a", "abcdefgh");
  const Corpus corpus = load(lines_in_docs(16), 4);
  EXPECT_EQ(corpus.counts().pieces, 3u);  // 4 + 4 + 1 of 9 inputs
  const TokenBatch batch = corpus.batch({1}, {0});
  std::map<std::vector<Token>, std::vector<Token>> pieces;
  const auto& starts = batch.packing->starts;
  for (std::size_t d = 0; d + 1 < starts.size(); ++d) {
    pieces[{batch.inputs.begin() + starts[d], batch.inputs.begin() + starts[d + 1]}] = {
        batch.targets.begin() + starts[d], batch.targets.begin() + starts[d + 1]};
  }
  EXPECT_EQ(pieces, (std::map<std::vector<Token>, std::vector<Token>>{
                        {tokens({256, 'a', 'b', 'c'}), tokens({'a', 'b', 'c', 'd'})},
                        {tokens({'d', 'e', 'f', 'g'}), tokens({'e', 'f', 'g', 'h'})},
                        {tokens({'h'}), tokens({256})}}));
}

TEST_F(CorpusTest, a_micro_batch_smaller_than_the_context_cuts_to_its_own_size) {
  write("a", "abcdefgh");
  const Corpus corpus = load(lines_in_docs(3), 100);
  EXPECT_EQ(corpus.counts().pieces, 3u);
  EXPECT_EQ(corpus.counts().tokens, 9u);
  for (std::uint32_t m = 0; m < 3; ++m) EXPECT_EQ(corpus.batch({1}, {m}).inputs.size(), 3u);
}

TEST_F(CorpusTest, every_piece_is_in_every_epoch_exactly_once) {
  write_uneven_lines();
  const Corpus corpus = load(lines_in_docs(128), 40);
  std::set<std::vector<std::uint32_t>> orders;
  for (std::uint64_t epoch : {0u, 1u, 2u, 9u}) {
    std::vector<std::uint32_t> seen;
    for (std::uint64_t n = 0; n < corpus.micro_batches_of(epoch); ++n) {
      const auto pieces = corpus.pieces_of(epoch, n);
      EXPECT_FALSE(pieces.empty());
      seen.insert(seen.end(), pieces.begin(), pieces.end());
    }
    orders.insert(seen);
    std::sort(seen.begin(), seen.end());
    std::vector<std::uint32_t> all(corpus.counts().pieces);
    std::iota(all.begin(), all.end(), 0u);
    EXPECT_EQ(seen, all) << "epoch " << epoch;
  }
  EXPECT_EQ(orders.size(), 4u) << "each epoch has an order of its own";
}

TEST_F(CorpusTest, pieces_come_in_the_order_of_their_keys) {
  write_uneven_lines();
  const Corpus corpus = load(lines_in_docs(128), 40, {11, 3});
  std::vector<std::uint64_t> keys;
  for (std::uint64_t n = 0; n < corpus.micro_batches_of(4); ++n) {
    for (std::uint32_t piece : corpus.pieces_of(4, n)) keys.push_back(keyed(11, 4, piece));
  }
  EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
}

// B07
TEST_F(CorpusTest, every_token_counts_once_wherever_it_lands) {
  write_uneven_lines();
  const std::string text = disk.read("docs/lines").value();
  std::map<Token, int> expected{{separator_token, 200}};
  for (char c : text) {
    if (c != '\n') ++expected[static_cast<unsigned char>(c)];
  }
  const Corpus corpus = load(lines_in_docs(100), 32, {7, 1});
  std::map<Token, int> predicted;
  for (std::uint32_t k = 1; k <= corpus.micro_batches_of(0); ++k) {
    for (Token target : corpus.batch({k}, {0}).targets) ++predicted[target];
  }
  EXPECT_EQ(predicted, expected);
  EXPECT_EQ(corpus.counts().tokens, text.size()) << "a separator per document stands where the newline was";
  EXPECT_EQ(corpus.counts().bytes, text.size() - 200);
}

// B10
TEST_F(CorpusTest, uneven_micro_batches_tell_their_true_size) {
  write_uneven_lines();
  const Corpus corpus = load(lines_in_docs(100), 32);
  std::set<std::size_t> sizes;
  for (std::uint32_t k = 1; k <= 40; ++k) {
    for (std::uint32_t m = 0; m < 3; ++m) {
      const TokenBatch batch = corpus.batch({k}, {m});
      const auto& starts = batch.packing->starts;
      ASSERT_EQ(batch.packing->tokens(), batch.inputs.size());
      ASSERT_EQ(batch.inputs.size(), batch.targets.size());
      ASSERT_LE(batch.inputs.size(), 100u);
      for (std::size_t d = 0; d + 1 < starts.size(); ++d) {
        ASSERT_GT(starts[d + 1], starts[d]);
        ASSERT_LE(starts[d + 1] - starts[d], 32u);
      }
      sizes.insert(batch.inputs.size());
    }
  }
  EXPECT_GT(sizes.size(), 5u) << "the lengths of this text differ";
}

TEST_F(CorpusTest, a_micro_batch_closes_only_when_the_next_piece_does_not_fit) {
  write_uneven_lines();
  const Corpus corpus = load(lines_in_docs(100), 32, {7, 1});
  for (std::uint32_t k = 1; k < corpus.micro_batches_of(0); ++k) {
    const TokenBatch batch = corpus.batch({k}, {0}), next = corpus.batch({k + 1}, {0});
    EXPECT_GT(batch.inputs.size() + next.packing->starts[1], 100u) << "iteration " << k;
  }
}

// B12
TEST_F(CorpusTest, another_number_of_micro_batches_neither_loses_nor_repeats_text) {
  write_uneven_lines();
  const Corpus in_threes = load(lines_in_docs(128), 40, {7, 3}), in_eights = load(lines_in_docs(128), 40, {7, 8});
  for (std::uint32_t number = 0; number < 240; ++number) {
    const TokenBatch a = in_threes.batch({number / 3 + 1}, {number % 3});
    const TokenBatch b = in_eights.batch({number / 8 + 1}, {number % 8});
    ASSERT_EQ(a.inputs, b.inputs) << number;
    ASSERT_EQ(a.targets, b.targets) << number;
  }
}

TEST_F(CorpusTest, a_batch_is_the_same_in_whatever_order_it_is_asked) {
  write_uneven_lines();
  const Corpus forwards = load(lines_in_docs(128), 40), backwards = load(lines_in_docs(128), 40);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<Token>> inputs;
  for (std::uint32_t k = 1; k <= 200; ++k) {
    for (std::uint32_t m = 0; m < 3; ++m) inputs[{k, m}] = forwards.batch({k}, {m}).inputs;
  }
  for (auto it = inputs.rbegin(); it != inputs.rend(); ++it) {
    const auto [k, m] = it->first;
    ASSERT_EQ(backwards.batch({k}, {m}).inputs, it->second) << k << " " << m;
  }
  Entropy entropy(1, "order");
  for (int i = 0; i < 300; ++i) {
    const auto k = static_cast<std::uint32_t>(entropy.between(1, 200)),
               m = static_cast<std::uint32_t>(entropy.below(3));
    ASSERT_EQ(forwards.batch({k}, {m}).inputs, (inputs[{k, m}])) << k << " " << m;
  }
}

TEST_F(CorpusTest, another_seed_is_another_order_of_the_same_text) {
  write_uneven_lines();
  const Corpus a = load(lines_in_docs(128), 40, {7, 3}), b = load(lines_in_docs(128), 40, {8, 3});
  EXPECT_NE(a.batch({1}, {0}).inputs, b.batch({1}, {0}).inputs);
  EXPECT_EQ(a.sha256(), b.sha256());
  EXPECT_EQ(a.counts().tokens, b.counts().tokens);
}

TEST_F(CorpusTest, epochs_follow_each_other_without_a_gap) {
  write("a", "a\nb\nc\n");
  const Corpus corpus = load(lines_in_docs(2), 8, {7, 1});  // three micro-batches an epoch
  for (std::uint32_t epoch = 0; epoch < 20; ++epoch) {
    std::set<Token> letters;
    for (std::uint32_t n = 0; n < 3; ++n) letters.insert(corpus.batch({3 * epoch + n + 1}, {0}).targets[0]);
    EXPECT_EQ(letters, (std::set<Token>{'a', 'b', 'c'})) << "epoch " << epoch;
  }
}

TEST_F(CorpusTest, files_are_split_filtered_and_counted) {
  write("one", "a\n%\nbb\n%\n");
  write("two", "\n%\nccc");
  write("two.dat", "never");
  write("three.u8", "never");
  const DataSpec data{{{"docs/*", {"*.dat", "*.u8"}, "\n%\n"}}, 4};
  const CorpusCounts counts = load(data, 8).counts();
  EXPECT_EQ(counts.files, 2u);
  EXPECT_EQ(counts.documents, 3u);
  EXPECT_EQ(counts.empty_documents, 2u);
  EXPECT_EQ(counts.bytes, 6u);
  EXPECT_EQ(counts.tokens, 9u);
}

TEST_F(CorpusTest, without_a_separator_a_file_is_one_document) {
  write("a", "x\ny\n");
  EXPECT_EQ(load({{{"docs/*", {}, std::nullopt}}, 8}, 8).counts().documents, 1u);
}

TEST_F(CorpusTest, the_hash_follows_content_and_split_but_not_names) {
  write("a", "x\ny");
  const std::string first = load(lines_in_docs(8), 8).sha256();
  EXPECT_EQ(first.size(), 64u);
  EXPECT_NE(first, load({{{"docs/*", {}, "y"}}, 8}, 8).sha256());
  EXPECT_NE(first, load({{{"docs/*", {}, std::nullopt}}, 8}, 8).sha256());
  EXPECT_EQ(first, load(lines_in_docs(16), 4).sha256());
  write("b", "");
  EXPECT_NE(first, load(lines_in_docs(8), 8).sha256());
  write("b", "x\ny");
  EXPECT_EQ(first, load({{{"docs/b", {}, "\n"}}, 8}, 8).sha256());
}

TEST_F(CorpusTest, errors_name_the_source_and_what_to_try) {
  write("a", "");
  EXPECT_EQ(
      errors_of(
          Corpus::load({{{"docs/*", {"a"}, {}}, {"none/*", {}, {}}, {"docs/a", {}, ""}}, 8}, model_with(8), disk, {})),
      (CorpusErrors{"data.sources[0]: no file matches 'docs/*': all 1 are excluded; shorten `exclude`",
                    "data.sources[1]: no file matches 'none/*'; check the path (a folder is named as folder/*) and "
                    "that the package with the text is installed",
                    "data.sources[2].split is empty; give the text between documents or leave it out"}));
  EXPECT_EQ(errors_of(Corpus::load(lines_in_docs(8), model_with(8), disk, {})),
            CorpusErrors{"data.sources: all 1 files are empty; name files with text"});
}

TEST_F(CorpusTest, an_unreadable_file_is_an_error_that_names_it) {
  RealDisk real;
  const auto errors = errors_of(Corpus::load({{{"/proc/self/mem", {}, {}}}, 8}, model_with(8), real, {}));
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].substr(0, 47), "data.sources[0]: cannot read '/proc/self/mem': ");
}

TEST_F(CorpusTest, settings_that_cannot_be_are_refused) {
  write("a", "text");
  ModelSpec small = model_with(8);
  small.vocabulary = 256;
  EXPECT_EQ(errors_of(Corpus::load(lines_in_docs(8), small, disk, {})).size(), 1u);
  EXPECT_EQ(errors_of(Corpus::load(lines_in_docs(0), model_with(0), disk, {})).size(), 2u);
  EXPECT_EQ(errors_of(Corpus::load({{}, 8}, model_with(8), disk, {})).size(), 1u);
}

TEST_F(CorpusTest, too_little_text_is_told_with_both_numbers) {
  write("a", "1234567");
  EXPECT_TRUE(load(lines_in_docs(4), 8, {7, 2}).enough());
  const auto shortage = load(lines_in_docs(4), 8, {7, 3}).shortage();
  ASSERT_TRUE(shortage);
  EXPECT_EQ(*shortage,
            "data.sources: 8 tokens are fewer than the 12 of one iteration (training.micro_batches 3 x "
            "data.micro_batch_tokens 4); add text or lower one of the two");
}

}  // namespace
}  // namespace stagecraft
