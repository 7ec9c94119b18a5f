#include "actors/job/node_process.hpp"

#include "actors/faults/fault_injector.hpp"
#include "actors/job/ending.hpp"
#include "actors/job/every_actor.hpp"
#include "actors/job/prepare.hpp"
#include "actors/node/hang_watch.hpp"
#include "actors/node/node.hpp"
#include "actors/process/connector.hpp"
#include "actors/process/control_plane.hpp"
#include "messages/core/error.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/job/build.hpp"
#include "runtime/job/device_setup.hpp"
#include "runtime/process/process_entry.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/process/run_succession.hpp"
#include "runtime/process/temporary_run.hpp"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/system_messages.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <optional>
#include <unistd.h>
#include <utility>

namespace troupe::actors {
namespace {

constexpr int patience_without_supervisor = 10;  // times the failure detector's timeout
constexpr int failed = 3;                        // exit code
// Until the job is known. When more actors hang, the process ends and is replaced.
constexpr int threads_to_spare = 2;
// Polling interval for a new supervisor process.
constexpr auto between_looks = std::chrono::milliseconds(20);

using clock = std::chrono::steady_clock;

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(seconds));
}

/// One process's part in a run.
class node_process {
 public:
  /// Throws input_error when the run has no credentials, or other users may read them.
  explicit node_process(const node_process_settings& settings)
      : settings_(settings),
        folder_(runtime::run_folder::open(settings.run)),
        place_({.address = settings.address, .port = settings.port}),
        config_(make_configuration(
            threads_to_spare,
            control_settings{folder_.credentials(), settings.suspicion, settings.insecure})),
        system_(*config_),
        self_(std::in_place, system_) {
    if (const auto now = runtime::find_rendezvous(folder_); now && now->port == place_.port)
      place_ = *now;
  }

  int run() {
    const auto told = join_at(place_);
    const auto& job = told.job;
    try {
      stand(told);
      // Without recovery, no agent adopts this process when its agent has died.
      if (!context_->jobs->open(told_)->job.recovery.on)
        runtime::end_with_parent(::getppid());
      const auto entry = entry_of(job);
      const int code = wait();
      entry->stop();
      end(code);
      return code;
    } catch (const std::exception& failure) {
      withdraw(failure.what());
      runtime::log_error("{}", failure.what());
      end(failed);
      return failed;
    }
  }

 private:
  messages::admitted join_at(const runtime::rendezvous_place& where) {
    rendezvous_
        = rendezvous_at(system_, where.address, where.port, milliseconds(settings_.suspicion));
    (*self_)->monitor(rendezvous_);
    return ask_for_job();
  }

  messages::admitted ask_for_job() {
    std::optional<messages::admitted> out;
    caf::error refusal;
    (*self_)
        ->request(rendezvous_,
                  milliseconds(settings_.suspicion),
                  messages::join{.who = settings_.who,
                                 .program = runtime::version_text(),
                                 .host = runtime::host_name(),
                                 .pid = runtime::this_process().pid})
        .receive([&](const messages::admitted& x) { out = x; },
                 [&](const caf::error& failure) { refusal = failure; });
    if (out)
      return *out;
    const auto why = fmt::format("cannot take part in the run at {}:{}: {}",
                                 place_.address,
                                 place_.port,
                                 messages::text_of(refusal));
    if (is(refusal, messages::ec::refused))
      throw runtime::input_error("{}", why);
    throw runtime::io_error("{}", why);
  }

  /// Waits until the rendezvous has received it, or cannot.
  void withdraw(const std::string& why) {
    (*self_)
        ->request(
            rendezvous_, milliseconds(settings_.suspicion), messages::withdraw{settings_.who, why})
        .receive([](const messages::withdrawn&) {}, [](const caf::error&) {});
  }

  void stand(const messages::admitted& told) {
    told_ = told.job;
    context_
        = prepare_process(told.job,
                          settings_.who,
                          {.address = settings_.listen,
                           .secret = settings_.insecure ? told.secret : secret_of(settings_.run),
                           .run_id = told.run,
                           .suspicion = settings_.suspicion},
                          settings_.functions);
    runtime::watch_warnings(
        [to = context_->warnings](runtime::severity level, std::string_view text) {
          to->add({level == runtime::severity::error, std::string(text)});
        });
    if (context_->faults)
      context_->faults->claim_by(
          [folder = runtime::run_folder::open(settings_.run), run = told.run](const auto& death) {
            return folder.claim(run, death.text);
          });
    const std::shared_ptr<const node_context> shared = context_;
    node_ = system_.spawn(node, shared, every_actor());
    (*self_)->monitor(node_);
    watch_ = watch_for_hangs(system_,
                             shared,
                             context_->jobs->open(told_)->job.recovery,
                             {.node = node_, .give_up = [](const std::string& why) {
                                runtime::log_error("{}", why);
                                std::_Exit(failed);
                              }});
    connector_ = system_.spawn<caf::detached>(
        connector, context_->neighbours, connect_patience(settings_.suspicion));
    where_ = context_->neighbours->address();
    where_.host = settings_.listen;
    where_.port = publish(connector_, settings_.listen);
    context_->messages->send(
        self_->ptr(), rendezvous_, messages::present{where_, node_, connector_});
    runtime::log_info(" process {} (incarnation {}) listens at {}:{}",
                      settings_.who.process,
                      settings_.who.incarnation,
                      where_.host,
                      where_.port);
  }

  /// Joins the successor of the supervisor process without a restart. Throws input_error when it is
  /// refused.
  bool follow_successor() {
    std::optional<runtime::rendezvous_place> newest;
    try {
      newest = runtime::find_rendezvous(folder_);
    } catch (const runtime::error&) {  // looked at again later
    }
    if (!newest || newest->incarnation <= place_.incarnation)
      return false;
    const auto before = std::exchange(place_, *newest);
    try {
      static_cast<void>(join_at(place_));
    } catch (const runtime::io_error&) {  // the successor is gone too, or not there yet
      place_ = before;
      return false;
    }
    context_->messages->send(
        self_->ptr(), rendezvous_, messages::present{where_, node_, connector_});
    runtime::log_info(
        " another process leads the run: incarnation {} of the supervisor's, at {}:{}",
        place_.incarnation,
        place_.address,
        place_.port);
    return true;
  }

  /// A refused process's state is lost to the run; the next one of its place starts without it.
  bool is_refused_by_successor(bool& alone) {
    try {
      alone = !follow_successor();
      return false;
    } catch (const runtime::input_error& refusal) {
      runtime::log_error("{}", refusal.what());
      return true;
    }
  }

  std::unique_ptr<runtime::entry_keeper> entry_of(const messages::job_description& job) {
    auto entry
        = runtime::entry_of_this_process(fmt::format("node-{}", settings_.who.process), "node");
    entry.roles = {"node"};
    entry.incarnation = settings_.who.incarnation;
    entry.ranks = context_->jobs->open(job)->placed.ranks_of(settings_.who.process);
    auto out = std::make_unique<runtime::entry_keeper>(runtime::run_folder::open(settings_.run),
                                                       std::move(entry));
    out->follow([living = context_->living, estates = context_->estates] {
      runtime::process_progress now;
      constexpr auto newest = runtime::generation_id(std::numeric_limits<std::uint64_t>::max());
      for (const auto& one : living->until(newest))
        now.generation = std::max(now.generation, std::uint64_t(one.generation));
      if (const auto steps = estates->common())
        now.step = steps->second;
      return now;
    });
    return out;
  }

  // The node ends when told to, after an error of its own, and when there has been no supervisor
  // for too long.
  int wait() {
    std::optional<int> code;
    bool alone = false;
    const auto take = [&](const caf::down_msg& x) {
      if (x.source == rendezvous_.address()) {
        alone = true;
        runtime::log_warning("the supervisor's process is gone");
      } else if (x.source == node_.address()) {
        node_ = nullptr;
        code = x.reason && x.reason != caf::exit_reason::user_shutdown ? failed : 0;
        if (*code != 0)
          runtime::log_error("{}", messages::text_of(x.reason));
      }
    };
    const auto patience = milliseconds(settings_.suspicion) * patience_without_supervisor;
    auto until = clock::time_point::max();
    while (!code) {
      if (!alone) {
        (*self_)->receive(take);
        until = clock::now() + patience;
        continue;
      }
      (*self_)->receive(
          take, caf::after(between_looks) >> [] {});
      if (is_refused_by_successor(alone)) {
        code = failed;
      } else if (alone && clock::now() > until) {
        runtime::log_error("no supervisor for {} s",
                           std::chrono::duration<double>(patience).count());
        code = failed;
      }
    }
    return *code;
  }

  /// Writes traces and profiles to files of this process.
  void write_records(const runtime::training_job& job) const {
    const auto own = [&](std::filesystem::path file) {
      file.replace_extension(fmt::format("process-{}.{}{}",
                                         settings_.who.process,
                                         settings_.who.incarnation,
                                         file.extension().string()));
      return file;
    };
    try {
      if (context_->trace)
        context_->trace->write_chrome(own(job.watch.trace_file));
      if (context_->profile)
        context_->profile->write_json(own(job.watch.profile_file));
    } catch (const runtime::error& failure) {
      runtime::log_error("cannot save the trace or the profile of this process: {}",
                         failure.what());
    }
  }

  void tell_what_is_kept() const {
    if (const auto bytes = context_->kept->bytes(); bytes > 0)
      runtime::log_info(" kept states of another process's ranks: {}, the two newest of each",
                        runtime::human_bytes(double(bytes)));
  }

  void tell_what_was_taken() const {
    const auto* const taken = context_->neighbours->taken();
    if (taken != nullptr && taken->bytes_mapped + taken->bytes_read + taken->bytes_received > 0)
      runtime::log_info(
          " of other processes' arrays: {} summed or copied where they lie, {} read by the kernel, "
          "{} received",
          runtime::human_bytes(double(taken->bytes_mapped)),
          runtime::human_bytes(double(taken->bytes_read)),
          runtime::human_bytes(double(taken->bytes_received)));
  }

  /// Ends the process at once when an actor hangs or may hang.
  void end(int code) {
    if (!context_)
      return;
    tell_what_is_kept();
    tell_what_was_taken();
    if (context_->faults)
      context_->faults->release();
    const auto& job = context_->jobs->open(told_)->job;
    if (node_) {
      (*self_)->send_exit(node_, caf::exit_reason::user_shutdown);
      (*self_)->receive([](const caf::down_msg&) {},
                        caf::after(milliseconds(settings_.suspicion)) >> [] {});
    }
    if (watch_)
      (*self_)->send_exit(watch_, caf::exit_reason::user_shutdown);
    watch_ = nullptr;
    if (connector_)
      (*self_)->send_exit(connector_, caf::exit_reason::user_shutdown);
    write_records(job);
    runtime::keep_product_choices(job);
    self_.reset();  // a scoped actor is among the actors waited for
    node_ = nullptr;
    rendezvous_ = nullptr;
    runtime::leave_temporary(folder_);
    if (code != 0 || !have_all_ended(system_, *context_, job.recovery))
      std::_Exit(code);
    unpublish(connector_);
    connector_ = nullptr;
  }

  const node_process_settings settings_;
  const runtime::run_folder folder_;
  runtime::rendezvous_place place_;  ///< of the run's supervisor process, as far as known
  std::unique_ptr<caf::actor_system_config> config_;
  caf::actor_system system_;
  std::optional<caf::scoped_actor> self_;  ///< represents this thread while it waits
  messages::rendezvous_actor rendezvous_;
  messages::job_description told_;
  messages::process_address where_;
  std::shared_ptr<node_context> context_;
  messages::node_actor node_;
  messages::hang_watch_actor watch_;
  messages::connector_actor connector_;
};

}  // namespace

int run_node(const node_process_settings& settings) {
  node_process process(settings);
  return process.run();
}

}  // namespace troupe::actors
