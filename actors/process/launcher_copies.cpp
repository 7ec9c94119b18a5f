// What a launcher gives to standing nodes, so that one of them goes on with the run when the host
// of the supervisor is gone; and how it finds out which of them does when they have lost each
// other.

#include "actors/process/launcher.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/file.hpp"
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

}  // namespace

// Told with a lock of the ledger's: it only sends.
void launcher_state::follow_ledger() {
  if (!settings_.other_hosts)
    return;
  context_->ledger->when_written(
      [me = caf::actor_cast<caf::weak_actor_ptr>(self_->ctrl()), path = context_->messages] {
        if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(me))
          path->send_from_outside(caf::actor_cast<messages::launcher_actor>(alive),
                                  messages::ledger_written{});
      });
}

messages::keep_run launcher_state::described_run() const {
  const auto folder = runtime::run_folder::open(settings_.run);
  return {.incarnation = settings_.incarnation,
          .address = settings_.address,
          .port = port_,
          .record = runtime::text_of(folder.record()),
          .order = runtime::read_order(folder),
          .description = runtime::read_description(folder),
          .secret = secret_,
          .save = settings_.other_hosts->save.string(),
          .directory = std::filesystem::current_path().string(),
          .round = round_,
          .places = places_};
}

void launcher_state::copy_run() {
  if (!settings_.other_hosts)
    return;
  for (const auto& [host, sent] : copied_)
    copy_run_to(host);
}

void launcher_state::copy_run_to(int host) {
  if (!settings_.other_hosts)
    return;
  try {
    sites_->keep(host, described_run());
    copied_.try_emplace(host, 0);
    copy_ledger_to(host);
  } catch (const std::exception& failure) {
    runtime::log_warning("{} could not go on with this run if this host were lost: {}",
                         sites_->name_of_host(host),
                         failure.what());
  }
}

void launcher_state::receive(const messages::ledger_written&) {
  for (const auto& [host, sent] : copied_)
    copy_ledger_to(host);
}

// The file is what a successor here would read. One that was cut or written anew is sent again.
void launcher_state::copy_ledger_to(int host) {
  auto& sent = copied_[host];
  const auto file = runtime::run_folder::open(settings_.run).ledger();
  std::error_code failure;
  const auto size = std::filesystem::file_size(file, failure);
  if (failure)
    return;
  if (size < sent)
    sent = 0;
  std::ifstream in(file, std::ios::binary);
  in.seekg(std::streamoff(sent));
  while (sent < size) {
    messages::keep_ledger part{sent, {}};
    part.lines.resize(std::size_t(std::min(size - sent, most_of_ledger)));
    if (!in.read(part.lines.data(), std::streamsize(part.lines.size())))
      return;
    sent += part.lines.size();
    sites_->keep(host, std::move(part));
  }
}

// By a thread: a file system that hangs holds nobody here. Who reaches nobody any more leaves the
// run to those who do.
void launcher_state::decide_round() {
  if (std::exchange(is_deciding_, true))
    return;
  const bool has_others = !sites_->serving().empty();
  runtime::start_thread("arbiter",
                        [me = caf::actor_cast<caf::weak_actor_ptr>(self_->ctrl()),
                         path = context_->messages,
                         by = runtime::arbiter(settings_.other_hosts->save, run_),
                         who = runtime::contender(settings_.run),
                         round = round_,
                         has_others] {
                          messages::round_decided out{.round = round, .goes_on = true};
                          try {
                            if (has_others)
                              out.goes_on = by.claim(round, who);
                            const auto winner = by.winner(round);
                            out.goes_on = out.goes_on && (winner.empty() || winner == who);
                            if (!out.goes_on)
                              out.why = winner + " goes on with it";
                          } catch (const std::exception& failure) {
                            out.goes_on = false;
                            out.why = failure.what();
                          }
                          if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(me))
                            path->send_from_outside(
                                caf::actor_cast<messages::launcher_actor>(alive), out);
                        })
      .detach();
}

void launcher_state::receive(const messages::round_decided& x) {
  is_deciding_ = false;
  if (!x.goes_on)
    settings_.other_hosts->superseded(
        fmt::format("{}; this process has lost hosts of the run, and ends: {}",
                    undecided_.empty() ? "a host is gone" : undecided_.front().second,
                    x.why));
  if (!sites_->serving().empty()) {
    round_ = x.round + 1;
    copy_run();
    try {
      leave_rendezvous();
    } catch (const runtime::error& failure) {
      runtime::log_warning("{}", failure.what());
    }
  }
  for (const auto& [host, why] : std::exchange(undecided_, {}))
    lose_places(host, why);
}

}  // namespace troupe::actors
