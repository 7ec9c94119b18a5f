#include "runtime/autograd/tape.hpp"

#include "kernels/op/sum.hpp"
#include "runtime/core/error.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace troupe::runtime {

std::string_view to_string(placement x) {
  switch (x) {
    case placement::replicated:
      return "replicated";
    case placement::sequence_sharded:
      return "sequence sharded";
    case placement::replicated_partial_gradient:
      return "replicated, with a partial gradient";
    case placement::feature_sharded:
      return "feature sharded";
    case placement::partial:
      return "partial";
    case placement::routed:
      return "routed";
  }
  return "placement(?)";
}

void require_placement(const variable& x, placement wanted, std::string_view by, axis along) {
  if (x.placements[along] != wanted)
    throw broken_promise(
        fmt::format("PLACEMENT-1: {} takes a variable that is {}, not one that is {}",
                    by,
                    to_string(wanted),
                    to_string(x.placements[along])));
}

void tape::begin_segment(int unit, bool record) {
  ensure(unit_ < 0, "TAPE-1: segments do not overlap");
  store_.acquire(unit);
  unit_ = unit;
  recording_now_ = record;
  current_ = int(segments_.size());
  segments_.push_back({.unit = unit, .recorded = record});
}

void tape::rerun_segment(int index) {
  ensure(unit_ < 0, "TAPE-1: segments do not overlap");
  auto& s = segments_.at(std::size_t(index));
  ensure(!std::exchange(s.recorded, true), "TAPE-4: a segment is recorded once");
  store_.acquire(s.unit);
  unit_ = s.unit;
  recording_now_ = true;
  current_ = index;
}

void tape::require_type(int index, dtype wanted) const {
  ensure(store_.type_of(store_.entry_at(unit_, index)) == wanted,
         "STORE-10: a parameter is read in the type of its values");
}

void tape::end_segment() {
  recording_now_ = true;
  store_.release(std::exchange(unit_, -1));
}

bool tape::trains(std::initializer_list<int> parameters) const {
  int trained = 0, frozen = 0;
  for (const int p : parameters)
    if (p >= 0)
      ++(store_.entry_at(unit_, p).spec.frozen ? frozen : trained);
  ensure(trained == 0 || frozen == 0, "TAPE-5: the parameters of an operation are frozen together");
  return trained > 0;
}

variable tape::make(tensor data, const axis_map<placement>& placements) const {
  return {std::move(data),
          settings_.recording ? std::make_shared<gradient_slot>() : nullptr,
          placements};
}

void tape::record(std::unique_ptr<node> x) {
  if (recording())
    segments_[std::size_t(current_)].nodes.push_back(std::move(x));
}

void tape::record(std::function<void(tape&)> input_gradients) {
  struct function_node final : node {
    std::function<void(tape&)> run;

    void input_gradients(tape& tape) override { std::exchange(run, {})(tape); }
  };
  auto x = std::make_unique<function_node>();
  x->run = std::move(input_gradients);
  record(std::unique_ptr<node>(std::move(x)));
}

void tape::add(tensor& to, tensor part) {
  if (!to) {
    to = std::move(part);
    return;
  }
  // Not in place: another variable may share the memory of the old sum.
  with_element(part.type(), [&]<class T>(T) {
    auto sum = tensor::empty<T>(stream_, part.extents());
    stream_.run(kernels::add<T>{sum.template data<T>(), to.data<T>(), part.data<T>(), part.size()});
    to = std::move(sum);
  });
}

void tape::input_gradients(int index) {
  auto& s = segments_.at(std::size_t(index));
  ensure(s.recorded && !std::exchange(s.i_done, true),
         "TAPE-2: a segment gives its input gradients once, after it was recorded");
  store_.acquire(s.unit);
  unit_ = s.unit;
  for (auto at = s.nodes.rbegin(); at != s.nodes.rend(); ++at)
    (*at)->input_gradients(*this);
  store_.release(std::exchange(unit_, -1));
}

void tape::weight_gradients(int index) {
  auto& s = segments_.at(std::size_t(index));
  ensure(s.i_done && !std::exchange(s.w_done, true),
         "TAPE-3: weight gradients come once, after input gradients");
  store_.acquire(s.unit);
  unit_ = s.unit;
  for (auto at = s.nodes.rbegin(); at != s.nodes.rend(); ++at)
    (*at)->weight_gradients(*this);
  s.nodes.clear();
  const bool last = std::none_of(segments_.begin(),
                                 segments_.begin() + index,
                                 [&](const segment& other) { return other.unit == s.unit; });
  if (last)
    store_.emit(unit_);
  store_.release(std::exchange(unit_, -1));
}

}  // namespace troupe::runtime
