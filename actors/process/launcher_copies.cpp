// Copies of the run for standing nodes, so that one of them can continue the run when the
// supervisor's host is lost.

#include "actors/process/launcher.hpp"
#include "actors/support/outside_sender.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/process/run_succession.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

namespace troupe::actors {
namespace {

constexpr std::uint64_t most_of_ledger = std::uint64_t{1} << 20;  ///< bytes per message
constexpr const char* ledger_file = "ledger.jsonl";

}  // namespace

// The ledger calls this with its lock held, so it only sends a message.
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
      [tell = outside_sender(messages::launcher_actor(self_), context_->messages)](
          std::uint64_t size, const std::string& lines) {
        tell(messages::ledger_written{size, lines});
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
  std::error_code failure;
  const bool is_new = copies_.try_emplace(host).second;
  if (const auto size = std::filesystem::file_size(settings_.run / ledger_file, failure);
      is_new && !failure)
    kept_run_->ledger = size;
  sites_->keep(host, *kept_run_);
  if (is_new)
    copy_ledger_to(host);
}

void launcher_state::send_ledger(int host, std::string lines) {
  auto& to = copies_[host];
  to.is_on_its_way = true;
  sites_->keep(host, messages::keep_ledger{to.bytes, std::move(lines)});
}

void launcher_state::receive(const messages::ledger_written& x) {
  for (const auto& [host, copy] : copies_)
    if (copy.is_on_its_way)
      continue;
    else if (copy.bytes + x.lines.size() == x.size)
      send_ledger(host, x.lines);
    else
      copy_ledger_to(host);
}

// Sends a missing piece from the file: the host is new, has refused a piece, or is slower than the
// steps.
void launcher_state::copy_ledger_to(int host) {
  const auto file = settings_.run / ledger_file;
  std::error_code failure;
  const auto size = std::filesystem::file_size(file, failure);
  auto& copy = copies_[host];
  if (failure || size == copy.bytes)
    return;
  if (size < copy.bytes)
    copy.bytes = 0;  // it was truncated or rewritten
  std::ifstream in(file, std::ios::binary);
  in.seekg(std::streamoff(copy.bytes));
  std::string lines(std::size_t(std::min(size - copy.bytes, most_of_ledger)), '\0');
  if (in.read(lines.data(), std::streamsize(lines.size())))
    send_ledger(host, std::move(lines));
}

// After a refusal, the next write sends what is missing.
void launcher_state::has_copied(int host, std::uint64_t bytes, bool all) {
  const auto found = copies_.find(host);
  if (found == copies_.end())
    return;
  found->second = {.bytes = bytes};
  if (all)
    copy_ledger_to(host);
}

}  // namespace troupe::actors
