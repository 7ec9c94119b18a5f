// A pipeline schedule of your own: a behaviour that decides while the step runs, by what has
// arrived. It is rehearsed and proved before anything is trained. docs/guides/write_a_schedule.md
// has the same as a script.

#include "runtime/schedule/behaviour.hpp"
#include "runtime/schedule/check.hpp"
#include "runtime/schedule/csv.hpp"
#include "runtime/schedule/generators.hpp"
#include "runtime/schedule/simulate.hpp"

#include <array>
#include <fmt/format.h>

using namespace troupe::runtime;

/// Gradients first, because another stage waits for them; forwards as far as memory reaches, which
/// here is as far as 1F1B's; weight gradients, which nobody waits for, while nothing else is there.
class eager final : public behaviour {
 public:
  std::optional<action> next(const stage_view& now) override {
    std::array<std::optional<action>, 5> ready;  // by kind: this rank hosts one chunk
    for (const auto& x : now.ready)
      ready[std::size_t(x.kind)] = x;
    const auto& done = now.finished[0];
    if (const auto& i = ready[std::size_t(action_kind::input_gradients)])
      return i;
    if (const auto& f = ready[std::size_t(action_kind::forward)];
        f && done.forward - done.weight_gradients < now.ranks)
      return f;
    return ready[std::size_t(action_kind::weight_gradients)];  // or nothing: wait
  }
};

int main() {
  // From now on it is a schedule like others: training_job::layout.schedule takes its name.
  register_behaviour({"eager", [](int, int, int, int) { return std::make_unique<eager>(); }});
  const auto& own = *find_behaviour("eager");

  // Two stages, four micro-batches: what they decide when everything takes equally long.
  fmt::print("{}", to_csv(rehearse(own, 2, 4)));

  // Four stages, of which the third is slow. The record of the rehearsal is a plan, and is judged
  // as every plan is, before any worker starts.
  cost_model uneven;
  uneven.costs = {{1, 1, 1}, {1, 1, 1}, {1.5, 1.6, 1.2}, {1, 1, 1}};
  uneven.transfer = 0.2;
  const auto decided = rehearse(own, 4, 12, uneven);
  fmt::print("can be carried out: {}\n", check_plan(decided).is_sound());
  const schedule_request named = {.ranks = 4, .microbatches = 12};
  const auto takes = [&](const plan& x) { return simulate(x, uneven).makespan; };
  fmt::print("takes {:.1f}; ZB-H1 {:.1f}, 1F1B {:.1f}\n",
             takes(decided),
             takes(generate("zb-h1", named)),
             takes(generate("1f1b", named)));
}

// Expected output:
//   0F0,0F1,0I0,0W0,0I1,0F2,0W1,0F3,0I2,0W2,0I3,0W3
//   1F0,1I0,1F1,1I1,1W0,1W1,1F2,1I2,1F3,1I3,1W2,1W3
//   can be carried out: true
//   takes 54.0; ZB-H1 54.9, 1F1B 60.9
