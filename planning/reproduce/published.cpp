#include "planning/reproduce/published.hpp"

#include <chrono>

#include "planning/bug.hpp"

namespace stagecraft::reproduce {

namespace {

using namespace std::chrono_literals;

constexpr PipelineShape four_stages{4, 1, {0}, 12}, eight_stages{8, 1, {0}, 24};

std::vector<OperatorTimes> everywhere(const OperatorTimes& times) {
  return std::vector<OperatorTimes>(eight_stages.stages, times);
}

}  // namespace

std::optional<double> PublishedValues::of(System system) const {
  switch (system) {
    case System::one_f_one_b:
      return one_f_one_b;
    case System::zero_bubble:
      return zero_bubble;
    case System::delegated:
      return delegated;
    case System::pipemorph:
      return pipemorph;
    case System::readiness:
    case System::follow:
    case System::ours:
    case System::hindsight:
      return std::nullopt;
  }
  return std::nullopt;
}

PublishedModel published_model(ModelSize size) {
  switch (size) {
    case ModelSize::b7:
      return {"7B",
              four_stages,
              {{8ms, 10ms, 5ms}, {9ms, 10ms, 6ms}, {10ms, 10ms, 6ms}, {9ms, 9ms, 6ms}},
              {0.422, 0.394, 0.435}};
    case ModelSize::b14:
      return {"14B", eight_stages, everywhere({9ms, 10ms, 6ms}), {0.862, 0.767, 0.787}};
    case ModelSize::b30:
      return {"30B",
              eight_stages,
              {{9ms, 15ms, 6ms},
               {10ms, 13ms, 6ms},
               {10ms, 13ms, 6ms},
               {10ms, 12ms, 6ms},
               {10ms, 12ms, 6ms},
               {11ms, 12ms, 6ms},
               {11ms, 11ms, 6ms},
               {13ms, 10ms, 6ms}},
              {0.975, 0.933, 1.104}};
    case ModelSize::b60:
      return {"60B", eight_stages, everywhere({11ms, 12500us, 6ms}), {1.041, 0.962, 1.165}};
    case ModelSize::b140: {
      // No times were published. 60B's, by the arithmetic of a stage: layers x width^2 / tensor-parallel ranks.
      constexpr double ratio = (10 * 12288.0 * 12288.0 / 8) / (5 * 11264.0 * 11264.0 / 4);
      const auto scaled = [=](Duration d) { return std::chrono::duration_cast<Duration>(d * ratio); };
      return {"140B", eight_stages, everywhere({scaled(11ms), scaled(12500us), scaled(6ms)}), {}};
    }
  }
  STAGECRAFT_ASSERT(false, "a model of an unknown size");
}

const std::vector<SlowLinkCase>& slow_link_cases() {
  using enum ModelSize;
  static const std::vector<SlowLinkCase> cases{
      {1, b14, {6}, 0, {0.86, 0.77}},
      {1, b14, {6}, 20, {1.33, 1.36}},
      {1, b14, {6}, 40, {1.83, 2.30}},
      {1, b14, {6}, 60, {2.33, 3.26}},

      {15, b14, {6}, 10, {1.08, 1.01, 0.90, 0.83}},
      {15, b14, {6}, 20, {1.33, 1.36, 1.05, 0.85}},
      {15, b14, {6}, 30, {1.58, 1.83, 1.22, 0.88}},
      {15, b14, {6}, 40, {1.83, 2.30, 1.36, 0.89}},
      {15, b14, {6}, 50, {2.11, 2.83, 1.52, 0.88}},
      {15, b14, {6}, 60, {2.33, 3.26, 1.69, 0.89}},

      {16, b7, {0}, 30, {0.80, 0.90, 0.54, 0.46}},
      {16, b14, {0}, 30, {1.60, 1.97, 0.97, 0.93}},
      {16, b30, {0}, 30, {1.73, 2.19, 1.53, 1.39}},
      {16, b60, {0}, 30, {1.77, 2.08, 1.71, 1.65}},
      {16, b7, {0}, 60, {1.23, 1.50, 0.73, 0.50}},
      {16, b14, {0}, 60, {2.53, 3.40, 1.24, 0.96}},
      {16, b30, {0}, 60, {2.64, 3.63, 1.83, 1.56}},
      {16, b60, {0}, 60, {2.63, 3.52, 2.00, 1.83}},
      {16, b7, {2}, 30, {1.10, 0.88, 0.62, 0.43}},
      {16, b14, {6}, 30, {1.56, 1.83, 1.18, 0.87}},
      {16, b30, {6}, 30, {1.83, 2.13, 1.87, 1.60}},
      {16, b60, {6}, 30, {1.78, 1.94, 1.83, 1.62}},
      {16, b7, {2}, 60, {1.82, 1.48, 0.87, 0.49}},
      {16, b14, {6}, 60, {2.32, 3.25, 1.68, 0.93}},
      {16, b30, {6}, 60, {2.44, 3.47, 2.29, 1.49}},
      {16, b60, {6}, 60, {2.45, 3.36, 2.45, 1.69}},

      {17, b14, {0, 1}, 30, {2.11, 2.31, 1.11, 0.90}},
      {17, b14, {0, 2}, 30, {2.19, 2.10, 1.11, 0.89}},
      {17, b14, {0, 6}, 30, {1.63, 1.99, 1.22, 0.88}},
      {17, b14, {0, 3, 6}, 30, {1.69, 2.12, 1.27, 0.94}},
  };
  return cases;
}

const std::vector<ReplicaLinkCase>& replica_link_cases() {
  static const std::vector<ReplicaLinkCase> cases{
      {10, 1.87, {{}, 0.64, 0.54, 0.53}},
      {20, 2.79, {{}, 0.86, 0.63, 0.55}},
      {30, 3.94, {{}, 1.10, 0.71, 0.56}},
  };
  return cases;
}

PublishedValues traced_milliseconds() { return {{}, 703, 579, 398}; }
PublishedValues traced_idle_percent() { return {{}, 57.4, 48.8, 25.3}; }

const std::vector<ChangingCase>& changing_cases() {
  static const std::vector<ChangingCase> cases{
      {"A", 50, 100, {1.39, 1.28, 0.81, 0.58}},
      {"B", 100, 200, {1.35, 1.27, 0.84, 0.55}},
      {"C", 200, 400, {1.34, 1.21, 0.77, 0.55}},
  };
  return cases;
}

PublishedValues production_iterations_per_minute() { return {41.4, 33.6, {}, 45.9}; }

}  // namespace stagecraft::reproduce
