// What a launcher gives to standing nodes, so that one of them goes on with the run when the host
// of the supervisor is gone; and how it finds out which of them does when they have lost each
// other.

#include "actors/process/launcher.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/process/arbiter.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/process/run_succession.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <utility>

namespace troupe::actors {
namespace {

constexpr std::uint64_t most_of_ledger = std::uint64_t{1} << 20;  ///< bytes in a message
using decided = messages::round_decided::outcome;

/// Blocks for a file system. `competes`: there is somebody to go on with.
messages::round_decided asked(const runtime::arbiter& by,
                              std::uint32_t round,
                              const std::string& who,
                              bool competes) {
  messages::round_decided out{.round = round};
  try {
    const bool won = competes && by.claim(round, who);
    const auto winner = won ? who : by.winner(round);
    out.how = won || winner == who ? decided::won : winner.empty() ? decided::open : decided::lost;
    out.why = winner;
  } catch (const std::exception& failure) {
    out.how = decided::unknown;
    out.why = failure.what();
  }
  return out;
}

}  // namespace

// The ledger tells with a lock of its own: it only sends.
void launcher_state::follow_ledger() {
  if (!settings_.other_hosts)
    return;
  const auto folder = runtime::run_folder::open(settings_.run);
  kept_run_ = messages::keep_run{.incarnation = settings_.incarnation,
                                 .address = settings_.address,
                                 .port = port_,
                                 .record = runtime::text_of(folder.record()),
                                 .order = runtime::read_order(folder),
                                 .description = runtime::read_description(folder),
                                 .secret = secret_,
                                 .save = settings_.other_hosts->save.string(),
                                 .directory = std::filesystem::current_path().string()};
  context_->ledger->when_written(
      [me = caf::actor_cast<caf::weak_actor_ptr>(self_->ctrl()), path = context_->messages](
          std::uint64_t size, const std::string& lines) {
        if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(me))
          path->send_from_outside(caf::actor_cast<messages::launcher_actor>(alive),
                                  messages::ledger_written{size, lines});
      });
}

void launcher_state::copy_run() {
  for (const auto& [host, copy] : copies_)
    copy_run_to(host);
}

void launcher_state::copy_run_to(int host) {
  if (!kept_run_)
    return;
  kept_run_->places = places_;
  kept_run_->round = round_;
  sites_->keep(host, *kept_run_);
  if (copies_.try_emplace(host).second)
    copy_ledger_to(host);
}

void launcher_state::send_ledger(int host, std::uint64_t at, std::string lines) {
  auto& to = copies_[host];
  to.sent = at + lines.size();
  ++to.unanswered;
  sites_->keep(host, messages::keep_ledger{at, std::move(lines)});
}

void launcher_state::receive(const messages::ledger_written& x) {
  for (const auto& [host, copy] : copies_)
    if (copy.has_hole)
      continue;
    else if (copy.sent + x.lines.size() == x.size)
      send_ledger(host, copy.sent, x.lines);
    else
      copy_ledger_to(host);
}

// What it has not, out of the file: a host that is new, or one that has refused some.
void launcher_state::copy_ledger_to(int host) {
  const auto file = settings_.run / "ledger.jsonl";
  std::error_code failure;
  const auto size = std::filesystem::file_size(file, failure);
  if (failure)
    return;
  auto at = copies_[host].sent;
  if (size < at)
    at = 0;  // it was cut, or written anew
  std::ifstream in(file, std::ios::binary);
  in.seekg(std::streamoff(at));
  while (at < size) {
    std::string lines(std::size_t(std::min(size - at, most_of_ledger)), '\0');
    if (!in.read(lines.data(), std::streamsize(lines.size())))
      return;
    const auto from = std::exchange(at, at + lines.size());
    send_ledger(host, from, std::move(lines));
  }
}

// What is missing there is sent with what is written next.
void launcher_state::has_copied(int host, std::uint64_t bytes, bool all) {
  const auto found = copies_.find(host);
  if (found == copies_.end())
    return;
  auto& copy = found->second;
  copy.has_hole = copy.has_hole || !all;
  if (--copy.unanswered > 0)
    return;
  copy.sent = bytes;
  copy.has_hole = false;
}

// By a thread: a file system that hangs holds nobody here. Who reaches nobody any more leaves the
// run to those who do.
void launcher_state::decide_round() {
  if (std::exchange(is_deciding_, true))
    return;
  const auto tell = [me = caf::actor_cast<caf::weak_actor_ptr>(self_->ctrl()),
                     path = context_->messages](messages::round_decided x) {
    if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(me))
      path->send_from_outside(caf::actor_cast<messages::launcher_actor>(alive), std::move(x));
  };
  context_->messages->send_later(self_,
                                 messages::launcher_actor(self_),
                                 suspicion(),
                                 messages::round_decided{round_, decided::awaited, {}});
  try {
    runtime::start_thread(
        "arbiter",
        [tell,
         by = runtime::arbiter(settings_.other_hosts->save, run_),
         who = settings_.other_hosts->contender,
         round = round_,
         competes = !sites_->serving().empty()] { tell(asked(by, round, who, competes)); })
        .detach();
  } catch (const runtime::error& failure) {
    tell({round_, decided::unknown, failure.what()});
  }
}

void launcher_state::receive(const messages::round_decided& x) {
  if (machine_->is_over() || x.round != round_)
    return;  // who is over has given them up
  const auto lost = [this] {
    return undecided_.empty() ? std::string("a host is there again") : undecided_.front().second;
  };
  switch (x.how) {
    case decided::awaited:
      if (is_deciding_)
        runtime::log_warning(
            "no place of a lost host moves yet: whether another host goes on with the run is "
            "looked "
            "up in '{}', which does not answer",
            settings_.other_hosts->save.string());
      return;
    case decided::ask_again:
      return decide_round();
    case decided::unknown:
      is_deciding_ = false;
      runtime::log_warning(
          "no place of a lost host moves yet: whether another host goes on with the run is not "
          "known ({}); it is tried again",
          x.why);
      context_->messages->send_later(self_,
                                     messages::launcher_actor(self_),
                                     suspicion() / 2,
                                     messages::round_decided{round_, decided::ask_again, {}});
      return;
    case decided::lost:
      return settings_.other_hosts->superseded(
          fmt::format("{}; {} goes on with this run, and this process ends", lost(), x.why));
    case decided::open:
      is_deciding_ = false;
      if (!sites_->serving().empty())  // one has come back meanwhile
        return decide_round();
      break;
    case decided::won:
      is_deciding_ = false;
      win_round();
      break;
  }
  give_up_undecided();
}

void launcher_state::give_up_undecided() {
  for (const auto& [host, why] : std::exchange(undecided_, {}))
    carry_out(machine_->host_gone(host, why));
}

// A successor here has to know it before anybody else does: else it would ask for a round that is
// over.
void launcher_state::win_round() {
  ++round_;
  try {
    leave_rendezvous();
  } catch (const runtime::error& failure) {
    runtime::log_warning("{}", failure.what());
    --round_;
    return;
  }
  copy_run();
}

}  // namespace troupe::actors
