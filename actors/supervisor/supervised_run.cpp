#include "actors/supervisor/supervised_run.hpp"

#include "runtime/state/ledger_beyond.hpp"
#include "runtime/trainer/decision.hpp"

namespace troupe::actors {
namespace {

restart_limits limits_of(const runtime::recovery_settings& x) {
  return {.on = x.on, .most = x.max_restarts, .window_ns = std::uint64_t(x.window * 1e9)};
}

}  // namespace

supervised_run::supervised_run(messages::supervisor_actor::pointer self,
                               messages::node_actor node,
                               messages::job_description told,
                               std::shared_ptr<const supervisor_resources> context,
                               messages::front_actor front,
                               const succession& after)
    : self(self),
      node(std::move(node)),
      front(std::move(front)),
      told(std::move(told)),
      context(std::move(context)),
      job(this->context->jobs->open(this->told)),
      is_cold(after.is_cold),
      at{this->told.iteration,
         this->told.consumed,
         this->told.skipped,
         this->told.scale.is_used() ? this->told.scale
                                    : runtime::beginning(job->job.training).scale},
      members(limits_of(job->job.recovery),
              after.epoch,
              this->told.iteration,
              this->context->ledger->restarts(),
              processes()) {}

void supervised_run::begin(const succession& after) {
  auto& ledger = *context->ledger;
  if (const auto newest = ledger.position(ledger.newest()); after.epoch > 0 && newest)
    at = *newest;
  else  // the predecessor may have died before it began
    ledger.by(after.epoch)->begin(at);
  const auto& where = job->job.checkpoints;
  // The predecessor may have died in between.
  if (keeps() && where.local_interval > 0 && !ledger.says_job())
    ledger.by(after.epoch)
        ->is_of({told.identity, processes(), runtime::origin_of(where, told.start, told.save)});
  members.kept(at.iteration);
  members.saved(ledger.newest_saved());
  members.looks_at_disks(where.local_interval > 0);
}

std::uint64_t supervised_run::clock_ns() const {
  return std::uint64_t(self->home_system().clock().now().time_since_epoch().count());
}

std::string supervised_run::name_of_stage(int replica, int stage) const {
  return job->stage_name(job->seats.rank_of_stage(replica, stage));
}

int supervised_run::process_of(int replica, int stage) const {
  return job->placed.process_of(job->seats.rank_of_stage(replica, stage));
}

std::unique_ptr<runtime::lane_board::place::at_message> supervised_run::take_turn(
    const char* what) const {
  if (!place)
    return nullptr;
  return std::make_unique<runtime::lane_board::place::at_message>(*place, what, 0, clock_ns());
}

}  // namespace troupe::actors
