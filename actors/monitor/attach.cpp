#include "actors/monitor/attach.hpp"

#include "actors/support/guard.hpp"
#include "actors/support/message_path.hpp"
#include "messages/protocol/actors.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/core/waiting.hpp"
#include "runtime/telemetry/run_log.hpp"
#include "runtime/watch/new_steps.hpp"
#include "runtime/watch/record_text.hpp"
#include "runtime/watch/send_command.hpp"

#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <fmt/format.h>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>

namespace troupe::actors {
namespace {

using namespace std::chrono_literals;

using observer_news = std::variant<messages::committed,
                                   messages::validated,
                                   messages::happened,
                                   messages::told_record,
                                   messages::connection_changed,
                                   messages::run_ended>;

/// ATTACH-2. Bounded queue between the follower's thread and the courier.
class news_queue {
 public:
  news_queue(std::size_t most, std::size_t bytes)
      : most_(std::max<std::size_t>(most, 1)), most_bytes_(bytes) {}

  /// Returns true if the courier sleeps and must be woken.
  bool add(observer_news x, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(x), bytes});
    bytes_ += bytes;
    while (waiting_.size() > 1 && (waiting_.size() > most_ || bytes_ > most_bytes_)) {
      bytes_ -= waiting_.front().bytes;
      waiting_.pop_front();
      ++untold_;
      ++dropped_;
    }
    return std::exchange(sleeps_, false);
  }

  /// Returns none if nothing waits; the courier then sleeps.
  std::optional<observer_news> next() {
    const std::lock_guard lock(mutex_);
    if (const auto count = std::exchange(untold_, 0); count > 0)
      return messages::told_record{"dropped",
                                   fmt::format(R"({{"kind":"dropped","count":{}}})", count)};
    if (waiting_.empty()) {
      sleeps_ = true;
      return {};
    }
    auto out = std::move(waiting_.front());
    waiting_.pop_front();
    bytes_ -= out.bytes;
    return std::move(out.what);
  }

  /// The observer is gone.
  void close() { closed_ = true; }
  bool is_closed() const { return closed_; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  struct item {
    observer_news what;
    std::size_t bytes = 0;
  };

  const std::size_t most_, most_bytes_;
  std::mutex mutex_;
  std::deque<item> waiting_;
  std::size_t bytes_ = 0;
  std::uint64_t untold_ = 0;  ///< dropped, not yet reported to the observer
  bool sleeps_ = true;
  std::atomic<std::uint64_t> dropped_ = 0;
  std::atomic<bool> closed_ = false;
};

/// ATTACH-1. Sends requests, because CAF answers a request when the receiver's handler returns. The
/// courier then knows that the mailbox is empty. It gets an error when the observer has died.
class courier_state {
 public:
  static constexpr const char* name = "courier";

  explicit courier_state(messages::courier_actor::pointer self) : self_(self) {}

  void start(messages::observer_actor to, std::shared_ptr<news_queue> from) {
    to_ = std::move(to);
    from_ = std::move(from);
  }

  void deliver() {
    if (awaits_)
      return;
    auto next = from_->next();
    if (!next)
      return;
    awaits_ = true;
    std::visit([this](auto& x) { give(std::move(x)); }, *next);
  }

 private:
  template <class Message>
  void give(Message x) {
    path_.request(self_, to_, caf::infinite, std::move(x))
        .then(
            [this] {
              awaits_ = false;
              if constexpr (std::is_same_v<Message, messages::run_ended>)
                self_->quit();
              else
                deliver();
            },
            [this](const caf::error&) {
              from_->close();
              self_->quit();
            });
  }

  messages::courier_actor::pointer self_;
  messages::observer_actor to_;
  std::shared_ptr<news_queue> from_;
  message_path path_;
  bool awaits_ = false;
};

messages::courier_actor::behavior_type courier(
    messages::courier_actor::stateful_pointer<courier_state> self,
    messages::observer_actor to,
    std::shared_ptr<news_queue> from) {
  end_on_exception(self, courier_state::name);
  self->state.start(std::move(to), std::move(from));
  return {[self](const messages::records_wait&) { self->state.deliver(); }};
}

messages::run_ended message_of(const runtime::follow_end& x) {
  using outcome = messages::run_ended::outcome;
  const auto how = x.how == runtime::follow_outcome::ended  ? outcome::ended
                   : x.how == runtime::follow_outcome::died ? outcome::died
                                                            : outcome::gone;
  return {how, x.end.exit_code, text_of(x)};
}

}  // namespace

struct attachment::parts final : runtime::run_listener {
  parts(caf::actor_system& system,
        runtime::followed_run of,
        messages::observer_actor to,
        attach_settings how)
      : run(std::move(of)),
        settings(std::move(how)),
        queue(std::make_shared<news_queue>(settings.most_waiting, settings.most_bytes)),
        courier(system.spawn(actors::courier, std::move(to), queue)) {}

  ~parts() override {
    stops = true;
    if (thread.joinable())
      thread.join();
    caf::anon_send_exit(courier, caf::exit_reason::user_shutdown);
  }

  void start() {
    thread = runtime::start_thread("attachment", [this] { follow(); });
  }

  // Called by the follower, on its thread.
  void begin(std::string_view text) override {
    steps.begin(text);
    send(messages::told_record{"run", std::string(text)}, text.size());
  }
  void take(std::string_view text) override {
    const auto kind = runtime::text_member(runtime::shallow_value(text), "kind");
    if (kind == "step")
      if (auto x = runtime::read_step_record(text)) {
        if (steps.is_new(x->iteration))
          send(messages::committed{.report = *std::move(x)}, text.size());
        return;
      }
    if (kind == "validation")
      if (auto x = runtime::read_validation_record(text))
        return send(messages::validated{.report = *x}, text.size());
    if (kind == "event")
      if (auto x = runtime::read_event_record(text))
        return send(messages::happened{.event = *std::move(x)}, text.size());
    send(messages::told_record{kind, std::string(text)}, text.size());
  }
  void connection(const std::string& state) override {
    if (std::exchange(connected, state) != state)
      send(messages::connection_changed{state}, state.size());
  }

  void follow() {
    messages::run_ended end;
    try {
      runtime::follower by(
          run, *this, [this](auto time) { return sleep(time); }, settings.limits);
      const auto found = by.follow();
      if (found.how == runtime::follow_outcome::stopped)
        return;
      end = message_of(found);
    } catch (const std::exception& failure) {
      end = {messages::run_ended::outcome::lost, 0, failure.what()};
    }
    send(std::move(end), 0);
  }

  /// Returns false when the follower must stop.
  bool sleep(std::chrono::milliseconds time) const {
    constexpr auto slice = 50ms;
    for (auto left = time; !is_over() && left > 0ms; left -= slice)
      runtime::sleep_for(std::min(left, slice));
    return !is_over();
  }
  bool is_over() const { return stops || queue->is_closed(); }

  void send(observer_news x, std::size_t bytes) {
    if (queue->add(std::move(x), bytes))
      path.send_from_outside(courier, messages::records_wait{++wakes});
  }

  const runtime::followed_run run;
  const attach_settings settings;
  const std::shared_ptr<news_queue> queue;
  const messages::courier_actor courier;
  message_path path;
  std::atomic<bool> stops = false;

  // Used only by the thread.
  runtime::new_steps steps;
  std::string connected = "not connected yet";
  std::uint64_t wakes = 0;

  std::jthread thread;
};

attachment::attachment(std::unique_ptr<parts> made) : parts_(std::move(made)) {}
attachment::attachment(attachment&&) noexcept = default;
attachment& attachment::operator=(attachment&&) noexcept = default;
attachment::~attachment() = default;

std::string attachment::command(const runtime::run_command& what) const {
  return command_to(parts_->run, what, parts_->settings.control_token);
}

std::uint64_t attachment::dropped() const {
  return parts_->queue->dropped();
}

runtime::followed_run run_in(const std::filesystem::path& folder) {
  auto opened = runtime::run_folder::open(folder);
  return {.at = {.url = {},
                 .folder = opened.sockets(),
                 .socket = runtime::run_folder::hub_socket,
                 .token = {},
                 .authority = {}},
          .folder = std::move(opened)};
}

std::string command_to(const runtime::followed_run& run,
                       const runtime::run_command& what,
                       const std::string& control_token) {
  auto to = run.at;
  to.token = control_token.empty() ? runtime::control_token_of(run) : control_token;
  if (to.token.empty())
    throw runtime::input_error(
        "cannot send '{}' to the run: there is no control token; give the contents of the file "
        "'control.token' in the run's folder",
        runtime::name_of(what));
  return runtime::send_command(to, runtime::text_of(what));
}

attachment attach(caf::actor_system& system,
                  runtime::followed_run run,
                  messages::observer_actor to,
                  attach_settings how) {
  auto made
      = std::make_unique<attachment::parts>(system, std::move(run), std::move(to), std::move(how));
  made->start();
  return attachment(std::move(made));
}

}  // namespace troupe::actors
