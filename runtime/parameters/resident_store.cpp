#include "runtime/parameters/resident_store.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::int64_t alignment = 16;  // elements: one cache line of floats

std::int64_t aligned(std::int64_t n) {
  return (n + alignment - 1) / alignment * alignment;
}

tensor zeros(memory_pool& pool, dtype type, std::int64_t n) {
  tensor out(pool.allocate(std::size_t(n) * size_of(type)), type, {n});
  pool.clear(out.raw(), out.bytes());
  return out;
}

resident_store::entry entry_of(const parameter_spec& spec, int unit, tensor_seat seat) {
  resident_store::entry e{
      .spec = spec,
      .unit = unit,
      .extents = local_extents(spec, seat),
      .boxes = local_boxes(spec, seat),
  };
  for (const auto& part : e.boxes)
    e.valid += part.size();
  return e;
}

}  // namespace

resident_store::resident_store(
    std::vector<unit_spec> units, int replicas, memory_pool pool, dtype type, tensor_seat seat)
    : units_(std::move(units)),
      seat_(seat),
      pool_(std::move(pool)),
      held_(units_.size()),
      emitted_(units_.size()) {
  std::int64_t values = 0, gradients = 0;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    first_.push_back(int(entries_.size()));
    for (const auto& spec : units_[u].parameters) {
      auto e = entry_of(spec, int(u), seat);
      e.value_offset = values;
      e.gradient_offset = gradients;
      const auto owner = std::find_if(entries_.begin(), entries_.end(), [&](const entry& other) {
        return other.spec.name == spec.tied_to;
      });
      if (owner != entries_.end()) {
        ensure(owner->extents == e.extents, "STORE-1: tied parameters have one shape");
        e.owner = int(owner - entries_.begin());
        e.value_offset = owner->value_offset;
      } else {
        values += aligned(e.size());
      }
      gradients += aligned(e.size());
      entries_.push_back(std::move(e));
    }
  }
  values_ = zeros(pool_, type, values);
  for (int r = 0; r < replicas; ++r)
    gradients_.push_back(zeros(pool_, dtype::f32, gradients));
  select_replica(0);
}

void resident_store::acquire(int unit) {
  auto& held = held_.at(std::size_t(unit));
  if (!gate_.closed.empty()) {
    std::unique_lock lock(gate_.mutex);
    gate_.changed.wait(
        lock, [&] { return !gate_.closed[std::size_t(unit)] || gate_.token.is_cancelled(); });
    if (gate_.closed[std::size_t(unit)])
      throw cancelled();
    if (const auto point = std::exchange(gate_.points[std::size_t(unit)], nullptr))
      wait_(point);
  }
  ++held;
}

void resident_store::release(int unit) {
  auto& held = held_.at(std::size_t(unit));
  ensure(held > 0, "STORE-2: what is released was acquired");
  --held;
}

const void* resident_store::value(int unit, int index) const {
  ensure(held_[std::size_t(unit)] > 0, "STORE-3: values are read while their unit is acquired");
  return values_.raw() + std::size_t(at(unit, index).value_offset) * size_of(type());
}

float* resident_store::gradient(int unit, int index) {
  ensure(held_[std::size_t(unit)] > 0, "STORE-4: gradients are added while their unit is acquired");
  return current_ + at(unit, index).gradient_offset;
}

void resident_store::emit(int unit) {
  ++emitted_.at(std::size_t(unit));
  if (then_)
    then_(unit);
}

void resident_store::close_gate(const cancel_token& token) {
  gate_.waker = token.on_cancel([this] {
    const std::lock_guard at_wake(gate_.mutex);
    gate_.changed.notify_all();
  });
  const std::lock_guard lock(gate_.mutex);
  gate_.token = token;
  gate_.closed.assign(units_.size(), 1);
  gate_.points.assign(units_.size(), nullptr);
}

void resident_store::open_gate(int unit, std::shared_ptr<device_event> point) {
  const std::lock_guard lock(gate_.mutex);
  if (gate_.closed.empty())  // no gate was ever closed
    return;
  gate_.closed.at(std::size_t(unit)) = 0;
  gate_.points.at(std::size_t(unit)) = std::move(point);
  gate_.changed.notify_all();
}

void resident_store::select_replica(int replica) {
  current_ = gradients_.at(std::size_t(replica)).data<float>();
}

void resident_store::zero_gradients() {
  for (auto& g : gradients_)
    pool_.clear(g.raw(), g.bytes());
  std::fill(emitted_.begin(), emitted_.end(), 0);
}

void resident_store::set(const entry& e, std::int64_t begin, std::span<const float> from) {
  const auto n = std::int64_t(from.size());
  if (type() == dtype::f32)
    return set_rounded(e, begin, n, from.data());
  std::vector<std::byte> rounded(from.size() * size_of(type()));
  round(from, rounded.data());
  set_rounded(e, begin, n, rounded.data());
}

void resident_store::set_rounded(const entry& e,
                                 std::int64_t begin,
                                 std::int64_t n,
                                 const void* from) {
  auto* const to = values_.raw() + std::size_t(e.value_offset + begin) * size_of(type());
  pool_.write(to, from, std::size_t(n) * size_of(type()));
}

void resident_store::round(std::span<const float> from, void* to) const {
  with_element(type(), [&]<class T>(T) {
    std::transform(from.begin(), from.end(), static_cast<T*>(to), [](float x) { return T(x); });
  });
}

std::span<float> resident_store::gradients(int replica) {
  auto& g = gradients_.at(std::size_t(replica));
  return {g.data<float>(), std::size_t(g.size())};
}

}  // namespace troupe::runtime
