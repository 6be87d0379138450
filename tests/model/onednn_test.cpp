#include "model/kernels/kernels_onednn.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <stdexcept>
#include <thread>

#include "tests/model/llama_fixture.hpp"

namespace stagecraft {
namespace {

using test::Batch;
using test::Floats;
using test::make_lively;
using test::Model;
using test::same_bits;
using test::small_spec;

/// The norm of the difference over the norm.
double difference(std::span<const float> a, std::span<const float> b) {
  double apart = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    apart += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    size += double{b[i]} * b[i];
  }
  return size == 0 ? std::sqrt(apart) : std::sqrt(apart / size);
}

class OneDnn : public testing::Test {
 protected:
  void SetUp() override {
    if (!onednn_available()) GTEST_SKIP() << onednn_missing();
  }
};

TEST_F(OneDnn, products_agree_with_the_exact_ones_in_every_form) {
  Floats a(130 * 90), b(130 * 90), start(130 * 130);
  for (std::size_t i = 0; i < a.size(); ++i)
    a[i] = std::sin(static_cast<float>(i)), b[i] = std::cos(static_cast<float>(3 * i));
  for (std::size_t i = 0; i < start.size(); ++i) start[i] = std::sin(static_cast<float>(7 * i));
  for (const auto& [m, n, k] :
       {std::array<std::size_t, 3>{1, 1, 1}, {64, 48, 80}, {120, 7, 33}, {5, 100, 60}, {9, 4, 0}})
    for (int form = 0; form < 8; ++form) {
      MatrixProduct x{.m = m, .n = n, .k = k};
      x.transpose_a = (form & 1) != 0, x.transpose_b = (form & 2) != 0, x.accumulate = (form & 4) != 0;
      x.a = a.data(), x.lda = (x.transpose_a ? m : k) + 3;
      x.b = b.data(), x.ldb = (x.transpose_b ? k : n) + 1;
      x.ldc = n + 2;
      Floats exact = start, library = start;
      x.c = exact.data();
      kernels(best_isa()).matmul(x);
      x.c = library.data();
      onednn_kernels().matmul(x);
      EXPECT_LT(difference(library, exact), 1e-6) << m << " x " << n << " x " << k << ", form " << form;
    }
}

TEST_F(OneDnn, loss_and_gradients_agree_with_the_exact_kernels_and_repeat_their_own_bits) {
  const Batch batch({70, 1, 33, 64, 5}, 37);
  Model exact(small_spec()), library(small_spec(), onednn_kernels()), again(small_spec(), onednn_kernels());
  for (Model* model : {&exact, &library, &again}) make_lively(*model);
  const LossSum a = exact.pass(batch), b = library.pass(batch), c = again.pass(batch);
  EXPECT_NEAR(b.loss.value() / a.loss.value(), 1, 1e-6);
  EXPECT_EQ(b.loss, c.loss);
  for (std::size_t g = 0; g < exact.gradients.size(); ++g) {
    EXPECT_LT(difference(library.gradients[g].span(), exact.gradients[g].span()), 1e-5) << "group " << g;
    EXPECT_TRUE(same_bits(library.gradients[g].span(), again.gradients[g].span())) << "group " << g;
  }
}

TEST_F(OneDnn, two_threads_at_once_get_the_bits_of_one) {
  const Batch batch({120}, 37);
  Model alone(small_spec(), onednn_kernels()), first(small_spec(), onednn_kernels()),
      second(small_spec(), onednn_kernels());
  alone.pass(batch);
  std::thread other([&] { second.pass(batch); });
  first.pass(batch);
  other.join();
  for (std::size_t g = 0; g < alone.gradients.size(); ++g) {
    EXPECT_TRUE(same_bits(first.gradients[g].span(), alone.gradients[g].span())) << "group " << g;
    EXPECT_TRUE(same_bits(second.gradients[g].span(), alone.gradients[g].span())) << "group " << g;
  }
}

TEST(OneDnnMissing, is_said_with_what_to_do) {
  EXPECT_EQ(&kernels_of(KernelKind::exact), &kernels(best_isa()));
  EXPECT_EQ(onednn_available(), onednn_missing().empty());
  if (onednn_available()) {
    EXPECT_EQ(&kernels_of(KernelKind::onednn), &onednn_kernels());
    EXPECT_NE(kernels_of(KernelKind::onednn).matmul, kernels(best_isa()).matmul);
    return;
  }
  EXPECT_NE(onednn_missing().find("libdnnl-dev"), std::string::npos);
  try {
    kernels_of(KernelKind::onednn);
    FAIL() << "there is no library to compute with";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find(onednn_missing()), std::string::npos);
  }
}

}  // namespace
}  // namespace stagecraft
