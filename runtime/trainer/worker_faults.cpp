// Fault injection in a worker: wrong numbers.

#include "runtime/core/error.hpp"
#include "runtime/core/random.hpp"
#include "runtime/tensor/moves.hpp"
#include "runtime/trainer/worker.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace troupe::runtime {
namespace {

/// Visits the first parameter for which a rank accounts.
template <class Homes, class Visit>
void visit_own_entry(Homes& homes, const Visit& visit) {
  for (auto& [id, home] : homes)
    for (const auto& e : home->store->entries())
      if (home->answers() && e.owner < 0 && e.spec.tied_to.empty() && !e.spec.frozen
          && answers(e.spec, home->store->axes()))
        return visit(*home, e);
}

/// Draws a range that a rank accounts for, with a rule that keeps that array, and an element of the
/// range. Prefers parameters that other ranks hold too: a check compares them.
template <class Homes, class Visit>
void visit_drawn_element(Homes& homes, state_array which, std::uint64_t key, const Visit& visit) {
  using home_of = typename Homes::mapped_type::element_type;
  std::vector<std::pair<home_of*, const optimizer_state::part*>> all, held_by_others;
  for (auto& [id, home] : homes) {
    const auto told = home->optimizer.digested();
    const auto& parts = home->optimizer.parts();
    for (std::size_t i = 0; home->answers() && i < parts.size(); ++i)
      if (!told[i].repeated && !parts[i].frozen && parts[i].range.size() > 0
          && parts[i].at.size() >= std::size_t(which)) {
        all.emplace_back(home.get(), &parts[i]);
        const auto& spec = home->store->entries()[std::size_t(parts[i].range.entry)].spec;
        const auto* const group = home->group_of(spec.placements.sums());
        if (group != nullptr && group->size() > 1)
          held_by_others.push_back(all.back());
      }
  }
  if (!held_by_others.empty())
    all = std::move(held_by_others);
  if (all.empty())
    throw input_error("cannot plant a wrong bit: this rank has no such array");
  const auto below = [&](std::uint64_t draw, std::size_t count) {
    return std::min(std::size_t(uniform(key, draw) * double(count)), count - 1);
  };
  const auto& [home, part] = all[below(0, all.size())];
  visit(*home, *part, below(1, std::size_t(part->range.size())));
}

}  // namespace

void worker::inject_nan_gradient() {
  visit_own_entry(homes_, [this](hosted& home, const parameter_entry& e) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    stream_.write(home.store->gradients(0, e.index), &nan, sizeof nan);
    home.optimizer.gradients().forget();
    if (home.witness)
      home.witness->note_written(0, e.index);
  });
}

void worker::flip_gradient_bit(std::uint64_t key) {
  visit_drawn_element(homes_,
                      state_array::weights,
                      key,
                      [this](hosted& home, const optimizer_state::part& x, std::size_t element) {
                        flip_bit(stream_,
                                 home.store->gradients(0, x.range.entry) + x.range.begin + element);
                        home.optimizer.gradients().forget();
                      });
}

void worker::flip_state_bit(state_array which, std::uint64_t key) {
  visit_drawn_element(
      homes_, which, key, [&](hosted& home, const optimizer_state::part& x, std::size_t element) {
        auto& all = home.optimizer;
        const auto array
            = which == state_array::weights ? all.weights(x) : all.state(x, std::size_t(which) - 1);
        flip_bit(stream_, array.data() + element);
      });
}

}  // namespace troupe::runtime
