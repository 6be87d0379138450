#include "model/kernels/kernels.hpp"

#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <algorithm>
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
INSTANTIATE_TEST_SUITE_P(Kernels, EveryIsa, testing::ValuesIn(every_isa),
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
  expect_plain_bits(GetParam(), {8, 1570, 20});
  expect_plain_bits(GetParam(), {400, 35, 20});
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

/// Those that must equal the scalar kernels bit for bit.
class FasterIsa : public EveryIsa {
 protected:
  /// Runs `work` with both tables on equal inputs and compares what it returns.
  static void expect_scalar_bits(const std::function<Floats(const Kernels&)>& work, std::size_t size) {
    EXPECT_TRUE(same_bits(work(kernels(Isa::scalar)), work(kernels(GetParam())))) << "size " << size;
  }
};
INSTANTIATE_TEST_SUITE_P(Kernels, FasterIsa, testing::Values(Isa::avx2, Isa::avx512),
                         [](const auto& value) { return std::string(name_of(value.param)); });

const std::vector<std::size_t> sizes = {1, 2, 7, 8, 15, 16, 17, 31, 32, 48, 63, 100};

Floats joined(std::initializer_list<Floats> parts) {
  Floats all;
  for (const Floats& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST_P(FasterIsa, norms_have_the_bits_of_the_scalar_kernels) {
  const std::size_t rows = 5;
  for (std::size_t width : sizes)
    expect_scalar_bits(
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

TEST_P(FasterIsa, rotation_has_the_bits_of_the_scalar_kernels_and_comes_back) {
  for (std::size_t half : sizes) {
    const std::size_t rows = 3, heads = 2, ld = heads * 2 * half + 5;
    Floats cosine(rows * half), sine(rows * half);
    for (std::size_t i = 0; i < cosine.size(); ++i)
      cosine[i] = static_cast<float>(std::cos(double(i))), sine[i] = static_cast<float>(std::sin(double(i)));
    expect_scalar_bits(
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

TEST_P(FasterIsa, gates_have_the_bits_of_the_scalar_kernels) {
  for (std::size_t hidden : sizes)
    expect_scalar_bits(
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

/// One head with everything that goes with it, from noise.
struct HeadRun {
  HeadRun(std::size_t tokens, std::size_t head_size)
      : length(tokens),
        size(head_size),
        qkv(noise(length * ld(), 1)),
        dout(noise(length * size, 2)),
        out(length * size),
        stats(2 * length),
        dqkv(length * ld()),
        scratch(attention_scratch(length, size), std::numeric_limits<float>::quiet_NaN()) {}

  std::size_t ld() const { return 3 * size + 5; }
  AttentionHead head() {
    return {.length = length,
            .head_size = size,
            .ld = ld(),
            .out_ld = size,
            .q = qkv.data(),
            .k = qkv.data() + size,
            .v = qkv.data() + 2 * size,
            .scale = 0.7F,
            .maximum = stats.data(),
            .inverse = stats.data() + 1,
            .stride = 2,
            .scratch = scratch.data()};
  }
  void run(const Kernels& k) {
    k.attention_forward(head(), out.data());
    k.attention_backward(head(), {.out = out.data(),
                                  .dout = dout.data(),
                                  .dq = dqkv.data(),
                                  .dk = dqkv.data() + size,
                                  .dv = dqkv.data() + 2 * size});
  }

  std::size_t length, size;
  Floats qkv, dout, out, stats, dqkv, scratch;
};

TEST_P(FasterIsa, attention_has_the_bits_of_the_scalar_kernels) {
  for (std::size_t length : {1, 2, 15, 16, 17, 33, 63, 64, 65, 100, 150})
    for (std::size_t size : {2, 6, 16, 20, 32, 40})
      expect_scalar_bits(
          [&](const Kernels& k) {
            HeadRun run(length, size);
            run.run(k);
            return joined({run.out, run.stats, run.dqkv});
          },
          length);
}

/// Attention and its gradients as the formulas say, in double.
void expect_formula(HeadRun& run) {
  const std::size_t n = run.length, size = run.size;
  const auto in = [&](std::size_t i, std::size_t part, std::size_t c) {
    return static_cast<double>(run.qkv[i * run.ld() + part * size + c]);
  };
  const auto d_out = [&](std::size_t i, std::size_t c) { return static_cast<double>(run.dout[i * size + c]); };
  std::vector<double> gradient(n * 3 * size);
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> p(i + 1), dp(i + 1);
    double sum = 0, mean = 0;
    for (std::size_t j = 0; j <= i; ++j) {
      double score = 0;
      for (std::size_t c = 0; c < size; ++c) score += in(i, 0, c) * in(j, 1, c), dp[j] += d_out(i, c) * in(j, 2, c);
      sum += p[j] = std::exp(0.7 * score);
    }
    for (std::size_t j = 0; j <= i; ++j) p[j] /= sum, mean += p[j] * dp[j];
    for (std::size_t c = 0; c < size; ++c) {
      double out = 0;
      for (std::size_t j = 0; j <= i; ++j) out += p[j] * in(j, 2, c);
      EXPECT_NEAR(run.out[i * size + c], out, 1e-5) << "out of query " << i << " of " << n;
    }
    for (std::size_t j = 0; j <= i; ++j)
      for (std::size_t c = 0; c < size; ++c) {
        const double ds = 0.7 * p[j] * (dp[j] - mean);
        gradient[(i * 3 + 0) * size + c] += ds * in(j, 1, c);
        gradient[(j * 3 + 1) * size + c] += ds * in(i, 0, c);
        gradient[(j * 3 + 2) * size + c] += p[j] * d_out(i, c);
      }
  }
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t c = 0; c < 3 * size; ++c)
      EXPECT_NEAR(run.dqkv[i * run.ld() + c], gradient[i * 3 * size + c], 3e-5) << i << " of " << n << ", " << c;
}

TEST_P(EveryIsa, attention_is_the_formula) {
  for (std::size_t length : {1, 16, 37, 70, 129})
    for (std::size_t size : {6, 32}) {
      HeadRun run(length, size);
      run.run(kernels(GetParam()));
      expect_formula(run);
    }
}

TEST_P(EveryIsa, the_first_queries_of_a_document_do_not_depend_on_how_long_it_is) {
  const std::size_t size = 20;
  HeadRun all(150, size);
  kernels(GetParam()).attention_forward(all.head(), all.out.data());
  for (std::size_t length : {1, 16, 50, 64, 149}) {
    HeadRun some(length, size);
    std::copy_n(all.qkv.begin(), some.qkv.size(), some.qkv.begin());
    kernels(GetParam()).attention_forward(some.head(), some.out.data());
    EXPECT_TRUE(same_bits(some.out, Floats(all.out.begin(), all.out.begin() + some.out.size()))) << length;
  }
}

TEST_P(FasterIsa, losses_have_the_bits_of_the_scalar_kernels) {
  for (std::size_t columns : sizes)
    expect_scalar_bits(
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

TEST_P(FasterIsa, sums_and_steps_have_the_bits_of_the_scalar_kernels) {
  for (std::size_t n : sizes)
    expect_scalar_bits(
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
          return joined({sum, p, m, v, halves});
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

TEST_P(EveryIsa, a_number_that_is_not_finite_is_not_hidden) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Floats logits = {1, bad, 2, 0};
    float maximum = 0, sum = 0;
    kernels(GetParam()).cross_entropy(logits.data(), 4, 0, &maximum, &sum);
    EXPECT_FALSE(std::isfinite(sum) && std::isfinite(maximum));
  }
}

TEST_P(EveryIsa, the_modes_of_the_floating_point_unit_are_left_alone) {
  const unsigned before = _mm_getcsr() & ~0x3fU;  // the lowest six bits are sticky flags
  expect_plain_bits(GetParam(), {7, 17, 9});
  EXPECT_EQ(_mm_getcsr() & ~0x3fU, before);
}

TEST(Kernels, an_instruction_set_that_is_missing_is_refused) {
  EXPECT_TRUE(available(Isa::scalar));
  EXPECT_TRUE(available(best_isa()));
  for (Isa isa : every_isa) {
    EXPECT_LE(available(isa) ? isa : Isa::scalar, best_isa());
    if (available(isa))
      EXPECT_EQ(kernels(isa).isa, isa);
    else
      EXPECT_THROW(kernels(isa), std::invalid_argument);
  }
}

}  // namespace
}  // namespace stagecraft
