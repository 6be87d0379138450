#include "model/kernels/kernels.hpp"

#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <stdexcept>
#include <vector>

#include "planning/random.hpp"

namespace stagecraft {
namespace {

using Floats = std::vector<float>;

/// Uniform in -1 .. 1.
Floats noise(std::size_t count, std::uint64_t seed) {
  Floats numbers(count);
  for (std::size_t i = 0; i < count; ++i)
    numbers[i] = static_cast<float>(static_cast<double>(keyed(seed, i) >> 11) * 0x1p-52 - 1);
  return numbers;
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// The definition of MatrixProduct, element by element.
void plain_product(const MatrixProduct& x) {
  for (std::size_t i = 0; i < x.m; ++i)
    for (std::size_t j = 0; j < x.n; ++j) {
      float sum = x.accumulate ? x.c[i * x.ldc + j] : 0.0F;
      for (std::size_t k = 0; k < x.k; ++k)
        sum = std::fma(x.transpose_a ? x.a[k * x.lda + i] : x.a[i * x.lda + k],
                       x.transpose_b ? x.b[j * x.ldb + k] : x.b[k * x.ldb + j], sum);
      x.c[i * x.ldc + j] = sum;
    }
}

struct Shape {
  std::size_t m, n, k;
};

/// Every form of one shape, with leading dimensions larger than needed.
void expect_plain_bits(Isa isa, Shape s) {
  for (int form = 0; form < 8; ++form) {
    MatrixProduct x{.m = s.m, .n = s.n, .k = s.k};
    x.transpose_a = (form & 1) != 0, x.transpose_b = (form & 2) != 0, x.accumulate = (form & 4) != 0;
    x.lda = (x.transpose_a ? s.m : s.k) + 3;
    x.ldb = (x.transpose_b ? s.k : s.n) + 1;
    x.ldc = s.n + 2;
    const Floats a = noise((x.transpose_a ? s.k : s.m) * x.lda, 1), b = noise((x.transpose_b ? s.n : s.k) * x.ldb, 2);
    Floats c = noise(s.m * x.ldc, 3), plain = c;
    x.a = a.data(), x.b = b.data(), x.c = plain.data();
    plain_product(x);
    x.c = c.data();
    kernels(isa).matmul(x);
    EXPECT_TRUE(same_bits(c, plain)) << name_of(isa) << " m " << s.m << " n " << s.n << " k " << s.k << " form "
                                     << form;
  }
}

class EveryIsa : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!available(GetParam())) GTEST_SKIP() << "this CPU has no " << name_of(GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(Kernels, EveryIsa, testing::Values(Isa::scalar, Isa::avx2),
                         [](const auto& value) { return std::string(name_of(value.param)); });

TEST_P(EveryIsa, a_matrix_product_is_one_chain_per_element) {
  for (Shape s : {Shape{1, 1, 1},
                  {6, 16, 8},
                  {7, 17, 9},
                  {5, 33, 3},
                  {13, 15, 31},
                  {64, 48, 32},
                  {37, 70, 65},
                  {2, 100, 1},
                  {1, 16, 40},
                  {12, 1, 16}})
    expect_plain_bits(GetParam(), s);
}

TEST_P(EveryIsa, a_matrix_product_larger_than_every_block_is_one_chain_per_element) {
  expect_plain_bits(GetParam(), {101, 72, 530});
  expect_plain_bits(GetParam(), {8, 1050, 20});
}

TEST_P(EveryIsa, empty_matrix_products_leave_or_clear_their_result) {
  Floats c(6, 5.0F);
  const float one = 1;
  MatrixProduct x{
      .m = 2, .n = 3, .k = 0, .a = &one, .lda = 1, .b = &one, .ldb = 3, .c = c.data(), .ldc = 3, .accumulate = true};
  kernels(GetParam()).matmul(x);
  EXPECT_EQ(c, Floats(6, 5.0F));
  x.accumulate = false;
  kernels(GetParam()).matmul(x);
  EXPECT_EQ(c, Floats(6, 0.0F));
  x.m = 0, x.k = 1;
  kernels(GetParam()).matmul(x);
  EXPECT_EQ(c, Floats(6, 0.0F));
}

TEST_P(EveryIsa, a_row_of_a_product_does_not_depend_on_the_other_rows) {
  const std::size_t n = 96, k = 300;
  const Floats a = noise(50 * k, 4), b = noise(n * k, 5);
  Floats all(50 * n), alone(n);
  const auto multiply = [&](std::size_t m, const float* rows, float* c) {
    kernels(GetParam())
        .matmul({.m = m,
                 .n = n,
                 .k = k,
                 .a = rows,
                 .lda = k,
                 .b = b.data(),
                 .ldb = k,
                 .transpose_b = true,
                 .c = c,
                 .ldc = n});
  };
  multiply(50, a.data(), all.data());
  for (std::size_t row : {0, 1, 7, 31, 49}) {
    multiply(1, a.data() + row * k, alone.data());
    EXPECT_TRUE(same_bits(alone, Floats(all.begin() + row * n, all.begin() + (row + 1) * n))) << row;
  }
}

TEST_P(EveryIsa, accumulating_parts_is_the_same_as_one_long_product) {
  const std::size_t m = 40, n = 72, k = 500;
  const Floats a = noise(k * m, 6), b = noise(k * n, 7);
  const auto accumulate = [&](std::size_t first, std::size_t depth, Floats& c) {
    kernels(GetParam())
        .matmul({.m = m,
                 .n = n,
                 .k = depth,
                 .a = a.data() + first * m,
                 .lda = m,
                 .transpose_a = true,
                 .b = b.data() + first * n,
                 .ldb = n,
                 .c = c.data(),
                 .ldc = n,
                 .accumulate = true});
  };
  Floats once(m * n), parts(m * n);
  accumulate(0, k, once);
  for (auto [first, depth] : {std::pair{0, 130}, {130, 1}, {131, 0}, {131, 369}}) accumulate(first, depth, parts);
  EXPECT_TRUE(same_bits(once, parts));
}

/// Runs `work` with both tables on equal inputs and compares what it returns.
void expect_same_bits(const std::function<Floats(const Kernels&)>& work, std::size_t size) {
  if (!available(Isa::avx2)) GTEST_SKIP() << "this CPU has no avx2";
  EXPECT_TRUE(same_bits(work(kernels(Isa::scalar)), work(kernels(Isa::avx2)))) << "size " << size;
}

const std::vector<std::size_t> sizes = {1, 2, 7, 8, 15, 16, 17, 31, 32, 48, 63, 100};

Floats joined(std::initializer_list<Floats> parts) {
  Floats all;
  for (const Floats& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(Kernels, norms_have_the_same_bits_on_every_isa) {
  const std::size_t rows = 5;
  for (std::size_t width : sizes)
    expect_same_bits(
        [&](const Kernels& k) {
          const Floats x = noise(rows * width, 1), gain = noise(width, 2), dy = noise(rows * width, 3);
          const Floats residual = noise(rows * width, 4);
          Floats y(rows * width), again(y), inverse(rows), dx(y), plain(y), dgain = noise(width, 5);
          k.rms_norm(x.data(), gain.data(), y.data(), inverse.data(), rows, width, 1e-5F);
          k.rms_norm_again(x.data(), gain.data(), inverse.data(), again.data(), rows, width);
          EXPECT_TRUE(same_bits(y, again));
          k.rms_norm_grad(dy.data(), x.data(), gain.data(), inverse.data(), residual.data(), dx.data(), rows, width);
          k.rms_norm_grad(dy.data(), x.data(), gain.data(), inverse.data(), nullptr, plain.data(), rows, width);
          k.rms_norm_gain_grad(dy.data(), x.data(), inverse.data(), dgain.data(), rows, width);
          return joined({y, inverse, dx, plain, dgain});
        },
        width);
}

TEST(Kernels, a_norm_is_the_formula) {
  const Floats x = {3, 4, 0, 0, 5}, gain = {1, 2, 1, 1, 1};
  Floats y(5), inverse(1);
  kernels(best_isa()).rms_norm(x.data(), gain.data(), y.data(), inverse.data(), 1, 5, 0.0F);
  EXPECT_NEAR(inverse[0], 1 / std::sqrt(10.0), 1e-6);
  EXPECT_NEAR(y[1], 8 / std::sqrt(10.0), 1e-6);
}

TEST(Kernels, rotation_has_the_same_bits_on_every_isa_and_comes_back) {
  for (std::size_t half : sizes) {
    const std::size_t rows = 3, heads = 2, ld = heads * 2 * half + 5;
    Floats cosine(rows * half), sine(rows * half);
    for (std::size_t i = 0; i < cosine.size(); ++i)
      cosine[i] = static_cast<float>(std::cos(double(i))), sine[i] = static_cast<float>(std::sin(double(i)));
    expect_same_bits(
        [&](const Kernels& k) {
          const Floats start = noise(rows * ld, 1);
          Floats x = start;
          k.rope(x.data(), ld, rows, heads, 2 * half, cosine.data(), sine.data(), false);
          Floats back = x;
          k.rope(back.data(), ld, rows, heads, 2 * half, cosine.data(), sine.data(), true);
          for (std::size_t i = 0; i < back.size(); ++i) EXPECT_NEAR(back[i], start[i], 1e-6);
          return joined({x, back});
        },
        half);
  }
}

TEST(Kernels, gates_have_the_same_bits_on_every_isa) {
  for (std::size_t hidden : sizes)
    expect_same_bits(
        [&](const Kernels& k) {
          const std::size_t rows = 4;
          Floats gate_up = noise(rows * 2 * hidden, 1), h(rows * hidden), dh = noise(rows * hidden, 2);
          for (float& x : gate_up) x *= 30;
          k.swiglu(gate_up.data(), h.data(), rows, hidden);
          k.swiglu_grad(gate_up.data(), dh.data(), rows, hidden);
          EXPECT_TRUE(same_bits(h, dh)) << "the backward pass recomputes h";
          return joined({h, gate_up});
        },
        hidden);
}

TEST(Kernels, attention_rows_have_the_same_bits_on_every_isa_and_in_both_passes) {
  for (std::size_t keys : sizes)
    expect_same_bits(
        [&](const Kernels& k) {
          const std::size_t rows = std::min<std::size_t>(keys, 9), ld = (keys + 15) / 16 * 16;
          const Floats raw = noise(rows * ld, 1);
          Floats p = raw, again = raw, dp = noise(rows * ld, 2), dot = noise(rows, 3), stats(2 * rows);
          AttentionTile tile{.rows = rows,
                             .keys = keys,
                             .first = keys - rows,
                             .scale = 3,
                             .scores = p.data(),
                             .ld = ld,
                             .maximum = stats.data(),
                             .inverse = stats.data() + 1,
                             .stride = 2};
          k.attention_softmax(tile);
          tile.scores = again.data();
          k.attention_grad(tile, dp.data(), dot.data());
          EXPECT_TRUE(same_bits(p, again));
          for (std::size_t r = 0; r < rows; ++r) {
            float sum = 0;
            for (std::size_t j = 0; j < keys; ++j) sum += p[r * ld + j];
            EXPECT_NEAR(sum, 1.0F, 1e-5F);
            for (std::size_t j = tile.first + r + 1; j < keys; ++j) EXPECT_EQ(p[r * ld + j], 0.0F);
          }
          return joined({p, dp, stats});
        },
        keys);
}

TEST(Kernels, losses_have_the_same_bits_on_every_isa) {
  for (std::size_t columns : sizes)
    expect_same_bits(
        [&](const Kernels& k) {
          Floats logits = noise(columns, 1);
          for (float& x : logits) x *= 20;
          float maximum = 0, sum = 0;
          k.cross_entropy(logits.data(), columns, columns / 2, &maximum, &sum);
          float total = 0;
          for (float x : logits) total += x;
          EXPECT_NEAR(total, 0.0F, 1e-5F);
          return joined({logits, {maximum, sum}});
        },
        columns);
}

TEST(Kernels, sums_and_steps_have_the_same_bits_on_every_isa) {
  for (std::size_t n : sizes)
    expect_same_bits(
        [&](const Kernels& k) {
          Floats a = noise(n, 1), b = noise(n, 2), sum(n), p = noise(n, 3), m = noise(n, 4), v = noise(n, 5);
          for (float& x : v) x *= x;
          k.add(a.data(), b.data(), sum.data(), n);
          k.adamw({.parameter = p.data(),
                   .moment1 = m.data(),
                   .moment2 = v.data(),
                   .gradient = a.data(),
                   .elements = n,
                   .gradient_scale = 0.5F,
                   .learning_rate = 1e-2F,
                   .weight_decay = 0.1F,
                   .beta1 = 0.9F,
                   .beta2 = 0.95F,
                   .epsilon = 1e-8F,
                   .bias1 = 2,
                   .bias2 = 3});
          const double squares = k.square_sum(a.data(), n);
          Floats halves(2);
          std::memcpy(halves.data(), &squares, sizeof squares);
          Floats dots(2);
          k.row_dots(a.data(), 0, b.data(), 0, 2, n, dots.data(), 1);
          return joined({sum, p, m, v, halves, dots});
        },
        n);
}

TEST(Kernels, a_step_is_the_formula_of_adamw) {
  Floats p = {1}, m = {0.5}, v = {0.25}, g = {2};
  kernels(best_isa())
      .adamw({.parameter = p.data(),
              .moment1 = m.data(),
              .moment2 = v.data(),
              .gradient = g.data(),
              .elements = 1,
              .gradient_scale = 0.5F,
              .learning_rate = 0.1F,
              .weight_decay = 0.01F,
              .beta1 = 0.9F,
              .beta2 = 0.75F,
              .epsilon = 0.0F,
              .bias1 = 2,
              .bias2 = 2});
  EXPECT_NEAR(m[0], 0.55, 1e-6);
  EXPECT_NEAR(v[0], 0.4375, 1e-6);
  EXPECT_NEAR(p[0], 1 - 0.1 * (1.1 / std::sqrt(0.875) + 0.01), 1e-6);
}

TEST(Kernels, a_number_that_is_not_finite_is_not_hidden) {
  for (Isa isa : {Isa::scalar, Isa::avx2}) {
    if (!available(isa)) continue;
    for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      Floats logits = {1, bad, 2, 0};
      float maximum = 0, sum = 0;
      kernels(isa).cross_entropy(logits.data(), 4, 0, &maximum, &sum);
      EXPECT_FALSE(std::isfinite(sum) && std::isfinite(maximum));
    }
  }
}

TEST(Kernels, the_modes_of_the_floating_point_unit_are_left_alone) {
  const unsigned before = _mm_getcsr() & ~0x3fU;  // the lowest six bits are sticky flags
  for (Isa isa : {Isa::scalar, Isa::avx2})
    if (available(isa)) expect_plain_bits(isa, {7, 17, 9});
  EXPECT_EQ(_mm_getcsr() & ~0x3fU, before);
}

TEST(Kernels, an_instruction_set_that_is_missing_is_refused) {
  EXPECT_TRUE(available(Isa::scalar));
  EXPECT_EQ(kernels(Isa::scalar).isa, Isa::scalar);
  if (available(Isa::avx2))
    EXPECT_EQ(kernels(best_isa()).isa, Isa::avx2);
  else
    EXPECT_THROW(kernels(Isa::avx2), std::invalid_argument);
}

}  // namespace
}  // namespace stagecraft
