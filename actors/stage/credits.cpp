// Credits: limits on results that a stage has handed on but the next stage has not redeemed
// (PLAN-6).

#include "actors/stage/stage_context.hpp"
#include "runtime/core/error.hpp"

#include <caf/actor_cast.hpp>
#include <caf/actor_control_block.hpp>

#include <utility>

namespace troupe::actors {

using runtime::action;
using runtime::action_kind;

namespace {

/// A lent credit, returned by the last owner. The last owner may be the transport, on any thread,
/// after the stage and its actor system have ended.
class lent_credit {
 public:
  lent_credit(std::uint64_t number,
              std::shared_ptr<std::atomic<int>> out,
              std::shared_ptr<const message_path> path,
              const messages::stage_actor& stage)
      : number_(number),
        out_(std::move(out)),
        path_(std::move(path)),
        stage_(caf::actor_cast<caf::weak_actor_ptr>(stage)) {
    ++*out_;
  }
  ~lent_credit() {
    --*out_;
    if (const auto alive = caf::actor_cast<messages::stage_actor>(stage_))
      path_->send_from_outside(alive, messages::lane_done{.work = number_});
  }
  lent_credit(const lent_credit&) = delete;
  lent_credit& operator=(const lent_credit&) = delete;

 private:
  std::uint64_t number_;
  std::shared_ptr<std::atomic<int>> out_;
  std::shared_ptr<const message_path> path_;
  caf::weak_actor_ptr stage_;
};

}  // namespace

int stage_state::credits_for(const action& x) const {
  const auto at = value(x.copy) * std::size_t(now_->plan->chunks) + value(x.chunk);
  if (x.kind == action_kind::forward)
    return now_->credits->activations[at];
  return x.kind == action_kind::input_gradients && x.block == 0 ? now_->credits->gradients[at] : 0;
}

stage_state::handoffs& stage_state::handoffs_of(const action& x) {
  return handed_on_[{x.copy, x.chunk, x.kind != action_kind::forward}];
}

bool stage_state::has_credit(const action& x) {
  const int credits = credits_for(x);
  return credits == 0 || handoffs_of(x).lent < credits;
}

std::shared_ptr<const void> stage_state::lend_credit(const action& x) {
  const int credits = credits_for(x);
  if (credits == 0)
    return nullptr;
  auto& of = handoffs_of(x);
  ++of.lent;
  const auto number = ++submitted_;
  lent_.emplace(number, x);
  auto out = std::make_shared<const lent_credit>(
      number, of.out, node_->messages, messages::stage_actor(self_));
  runtime::ensure(*of.out <= credits,
                  "PLAN-6: a stage leases at most as many results as it has credits");
  return out;
}

// Also for a row that has ended: its results stay leased until they are redeemed.
bool stage_state::take_credit_back(std::uint64_t number) {
  const auto found = lent_.extract(number);
  if (found.empty())
    return false;
  const auto& x = found.mapped();
  --handoffs_of(x).lent;
  if (!now_)
    return true;
  if (now_->policy)
    now_->policy->book.give_back(x.chunk, x.kind != action_kind::forward);
  ask_policy();
  pump();
  return true;
}

void stage_state::bound_policy() {
  auto& book = now_->policy->book;
  book.bound(*now_->credits);
  for (const auto& [number, x] : lent_)
    book.lend(x.chunk, x.kind != action_kind::forward);
}

}  // namespace troupe::actors
