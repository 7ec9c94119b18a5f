// After the loss of a host, the launcher finds out whether that host or its own is cut off from the
// others.

#include "actors/process/launcher.hpp"
#include "actors/support/outside_sender.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/process/arbiter.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <exception>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {
namespace {

using decided = messages::round_decided::outcome;

/// Blocks on a file system. `competes`: some host still serves. Otherwise it resigns the round that
/// it holds, so that unreachable hosts can continue the run.
messages::round_decided asked(const runtime::arbiter& by,
                              messages::round_decided out,
                              const runtime::contender& who,
                              bool competes) {
  try {
    const auto held = out.round - 1;
    out.round = by.open_round(out.round);
    const bool won = competes && by.claim(out.round, who);
    const auto winner = won ? who : by.winner_now(out.round);
    out.how = winner == who ? decided::won : winner ? decided::lost : decided::open;
    if (winner)
      out.why = winner->text;
    else
      by.resign(held, who);
  } catch (const std::exception& failure) {
    out.how = by.is_replaced() ? decided::lost : decided::unknown;
    out.why = out.how == decided::lost
                  ? fmt::format("'{}' was removed, probably by another run", by.folder().string())
                  : failure.what();
  }
  return out;
}

}  // namespace

void launcher_state::decide_round() {
  if (std::exchange(is_deciding_, true))
    return;
  const messages::round_decided question{.attempt = ++attempt_, .round = round_};
  auto late = question;
  late.how = decided::awaited;
  context_->messages->send_later(
      self_, messages::launcher_actor(self_), suspicion(), std::move(late));
  ask_arbiter(question,
              [who = settings_.other_hosts->who, competes = !sites_->serving().empty()](
                  const runtime::arbiter& by, messages::round_decided out) {
                return asked(by, std::move(out), who, competes);
              });
}

// Asks on a thread, so that a hanging file system does not block the launcher. The answer is a
// message.
void launcher_state::ask_arbiter(messages::round_decided question, question_to_arbiter how) {
  const outside_sender tell(messages::launcher_actor(self_), context_->messages);
  const auto unanswered = [](messages::round_decided x, const char* why) {
    if (x.how == decided::lost)
      return x;  // the arbiter's answer does not matter
    x.how = decided::unknown;
    x.why = why;
    return x;
  };
  try {
    runtime::start_thread("arbiter",
                          [tell,
                           unanswered,
                           question,
                           how = std::move(how),
                           by = runtime::arbiter(settings_.other_hosts->save, run_)] {
                            try {
                              tell(how(by, question));
                            } catch (const std::exception& failure) {
                              tell(unanswered(question, failure.what()));
                            }
                          })
        .detach();
  } catch (const runtime::error& failure) {
    tell(unanswered(question, failure.what()));
  }
}

void launcher_state::receive(const messages::round_decided& x) {
  if (machine_->is_over() || x.attempt != attempt_ || !is_deciding_)
    return;  // an ending launcher has given up its hosts
  switch (x.how) {
    case decided::awaited:
      runtime::log_warning(
          "processes of a lost host do not move yet: '{}', which says whether another host "
          "continues the run, does not answer",
          settings_.other_hosts->save.string());
      return;
    case decided::ask_again:
      is_deciding_ = false;
      return decide_round();
    case decided::unknown:
      if (std::exchange(unknown_why_, x.why) != x.why)
        runtime::log_warning(
            "processes of a lost host do not move yet: it is unknown whether another host "
            "continues the run ({}); trying again",
            x.why);
      context_->messages->send_later(
          self_,
          messages::launcher_actor(self_),
          suspicion() / 2,
          messages::round_decided{.attempt = attempt_, .round = round_, .how = decided::ask_again});
      return;
    case decided::lost:
      return is_superseded(x.why);
    case decided::open:
      if (!sites_->serving().empty()) {  // a host has returned meanwhile
        is_deciding_ = false;
        return decide_round();
      }
      has_resigned(true);
      break;
    case decided::won:
      win_round(x.round);
      break;
  }
  settle_undecided();
}

void launcher_state::is_superseded(const std::string& why) {
  const auto because = undecided_.empty() ? std::string() : undecided_.front().second + "; ";
  settings_.other_hosts->superseded(fmt::format("{}{}; this process ends", because, why));
}

// A host obeys a later incarnation. The later incarnation may have resigned since. This ending
// process resigns its rounds so that the others do not lose to it.
void launcher_state::obeys_another(const std::string& why) {
  if (!settings_.other_hosts || machine_->is_over())
    return;
  is_deciding_ = true;
  ask_arbiter(
      messages::round_decided{
          .attempt = ++attempt_, .round = round_, .how = decided::lost, .why = why},
      [who = settings_.other_hosts->who](const runtime::arbiter& by, messages::round_decided out) {
        by.resign_all(1, who);
        return out;
      });
}

void launcher_state::has_resigned(bool now) {
  has_resigned_ = now;
  settings_.other_hosts->left_to_others(now);
}

void launcher_state::settle_undecided() {
  is_deciding_ = false;
  unknown_why_.clear();
  for (const auto& [host, why] : std::exchange(undecided_, {}))
    carry_out(machine_->host_gone(host, why));
  for (const int host : std::exchange(returned_, {}))
    find_host(host);
}

// Writes the new round to the rendezvous first: otherwise a successor here would ask for a round
// that is over. If this launcher has lost all its hosts since it asked, it resigns, so that they
// can continue.
void launcher_state::win_round(std::uint32_t won) {
  const auto before = std::exchange(round_, won + 1);
  try {
    leave_rendezvous();
  } catch (const runtime::error& failure) {
    runtime::log_warning("{}", failure.what());
    round_ = before;  // this process can win the round again; no other can
  }
  const bool has_nobody = sites_->serving().empty();
  has_resigned(has_nobody);
  if (!has_nobody)
    return copy_run();
  tell_arbiter(
      [who = settings_.other_hosts->who, won](const runtime::arbiter& by) { by.resign(won, who); });
}

// Called when all nodes serve this run: an earlier run could otherwise still use them.
void launcher_state::forget_other_runs() {
  if (settings_.other_hosts)
    tell_arbiter([](const runtime::arbiter& by) { by.forget_others(); });
}

void launcher_state::tell_arbiter(std::function<void(const runtime::arbiter&)> what) {
  try {
    runtime::start_thread(
        "arbiter",
        [what = std::move(what), by = runtime::arbiter(settings_.other_hosts->save, run_)] {
          try {
            what(by);
          } catch (const std::exception& failure) {
            runtime::log_warning("{}", failure.what());
          }
        })
        .detach();
  } catch (const runtime::error& failure) {
    runtime::log_warning("{}", failure.what());
  }
}

}  // namespace troupe::actors
