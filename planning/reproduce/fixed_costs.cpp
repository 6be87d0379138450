#include "planning/reproduce/fixed_costs.hpp"

#include <chrono>
#include <cmath>

#include "planning/bug.hpp"

namespace stagecraft::reproduce {

namespace {

Duration from_seconds(double seconds) { return std::chrono::microseconds(std::llround(seconds * 1e6)); }

}  // namespace

Duration FixedCosts::of(System system, bool is_slow) const {
  if (system == System::one_f_one_b) return one_f_one_b;
  if (system == System::zero_bubble) return zero_bubble;
  return is_slow || system == System::delegated ? delegated : zero_bubble;
}

Setting setting_of(const PublishedModel& model, Memory memory) {
  return {model.shape, model.times, {}, Injection::none, memory, 1, {}, true};
}

FixedCosts fixed_costs(ModelSize size) {
  const PublishedModel model = published_model(size == ModelSize::b140 ? ModelSize::b60 : size);
  const Setting setting = setting_of(model, Memory::equal);
  const auto besides = [&](System system) {
    const auto seconds = model.healthy.of(system);
    STAGECRAFT_ASSERT(seconds.has_value(), "no healthy iteration of {}", model.name);
    return from_seconds(*seconds) - play(setting, system).makespan;
  };
  return {besides(System::one_f_one_b), besides(System::zero_bubble), besides(System::delegated)};
}

FixedCosts fixed_costs_of_replicas() {
  const FixedCosts one = fixed_costs(ModelSize::b7);
  const Setting setting = setting_of(published_model(ModelSize::b7), Memory::equal);
  const Duration direct = from_seconds(replicas_healthy) - play(setting, System::zero_bubble).makespan;
  const Duration more = direct - one.zero_bubble;
  return {one.one_f_one_b + more, direct, one.delegated + more};
}

}  // namespace stagecraft::reproduce
