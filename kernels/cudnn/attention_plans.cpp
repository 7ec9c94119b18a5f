#include "kernels/cudnn/attention_plans.hpp"

namespace troupe::kernels::cudnn {

plan make_plan(const attention_problem& problem, bool backward, const descriptor& device) {
  return backward ? backward_plan(problem, device) : forward_plan(problem, device);
}

found_plan attention_plans::find(const attention_problem& problem, bool backward) {
  entry* found = nullptr;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& x : entries_) {
      if (x->backward == backward && x->problem == problem)
        found = x.get();
    }
    if (found == nullptr)
      found = entries_.emplace_back(new entry{problem, backward}).get();
  }
  const std::lock_guard lock(found->making);
  if (!found->tried) {
    try {
      found->made = std::make_unique<plan>(make_(problem, backward, device_));
    } catch (const not_supported& e) {
      found->why = e.what();
    }
    found->tried = true;
  }
  return {found->made.get(), found->why};
}

handles::lease::lease(handles& of, cudaStream_t queue) : of_(of), handle_(nullptr) {
  {
    const std::lock_guard lock(of_.mutex_);
    if (!of_.free_.empty()) {
      handle_ = of_.free_.back();
      of_.free_.pop_back();
    }
  }
  if (handle_ == nullptr)
    check(cudnnCreate(&handle_), "starting cuDNN");
  check(cudnnSetStream(handle_, queue), "giving cuDNN a queue");
}

handles::lease::~lease() {
  const std::lock_guard lock(of_.mutex_);
  of_.free_.push_back(handle_);
}

}  // namespace troupe::kernels::cudnn
