#include "actors/simulation/world.hpp"

#include "messages/core/type_ids.hpp"
#include "runtime/core/error.hpp"

#include <caf/actor_system_config.hpp>
#include <caf/scheduled_actor.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <cstdlib>
#include <cxxabi.h>
#include <unordered_set>
#include <utility>

namespace troupe::actors::simulation {
namespace {

constexpr std::uint64_t is_fiber = std::uint64_t{1} << 63;
constexpr auto never = ~std::uint64_t{0};

caf::scheduled_actor& actor_of(caf::resumable* job) {
  return dynamic_cast<caf::scheduled_actor&>(*job);
}

/// CAF names an actor without state by its class; the loader is our only such actor.
std::string name_of_actor(const caf::scheduled_actor& x) {
  const std::string_view name = x.name();
  return name == "event_based_actor" || name == "typed_event_based_actor"
                 || name == "scheduled_actor"
             ? "loader"
             : std::string(name);
}

/// "run_step" instead of CAF's "run_step(1, ...)".
std::string message_name(caf::scheduled_actor& x) {
  const auto* const next = x.mailbox().peek();
  if (next == nullptr)
    return "begin";
  if (next->content().empty())
    return "nothing";
  auto out = next->content().stringify(0);
  return out.substr(0, out.find_first_of("( "));
}

std::type_index message_type(caf::scheduled_actor& x) {
  const auto* const next = x.mailbox().peek();
  if (next == nullptr || next->content().empty())
    return typeid(void);
  const auto* const type = next->content().type(0).second;
  return type == nullptr ? std::type_index(typeid(void)) : std::type_index(*type);
}

}  // namespace

struct world::configuration : caf::actor_system_config {
  configuration() {
    messages::add_message_types(*this);
    set("scheduler.policy", caf::atom("testing"));
    set("logger.verbosity", caf::atom("quiet"));
  }
};

world::world(std::uint64_t seed, mix how, std::shared_ptr<turn_trace> trace)
    : mix_(std::move(how)),
      choices_(seed, 1),
      trace_(std::move(trace)),
      config_(std::make_unique<configuration>()),
      system_(std::make_unique<caf::actor_system>(*config_)) {
  coordinator_ = &dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler());
  while (coordinator_->try_run_once()) {  // let CAF's own actors start
  }
  told_ = system_->latest_actor_id();
  std::sort(mix_.change_points.begin(), mix_.change_points.end());
  fibers_->on_join([this] { return turn_of_fibers(); });
  set_time(std::uint64_t(coordinator_->clock().current_time.time_since_epoch().count()));
}

world::~world() {
  end();
  if (running() > 0)  // otherwise the destructor would wait for them
    system_->await_actors_before_shutdown(false);
}

void world::end() {
  look_ = nullptr;
  look_at_message_ = nullptr;
  spawned_ = nullptr;
  for (const auto& x : std::exchange(handling_, {}))
    coordinator_->jobs.push_back(x.job);
  for (const auto& x : runners_)
    x->busy = true;  // no runner takes another turn
  for (const auto which : fibers_->alive()) {
    fibers_->abandon(which);
    while (!fibers_->has_ended(which))
      fibers_->run(which);
  }
  runners_.clear();
  coordinator_->clock().cancel_all();
  for (const auto& [number, x] : seen_)
    if (const auto alive = caf::actor_cast<caf::actor>(x.handle))
      caf::anon_send_exit(alive, caf::exit_reason::kill);
  while (coordinator_->try_run_once()) {
  }
}

void world::set_time(std::uint64_t ns) {
  auto& clock = coordinator_->clock().current_time;
  const caf::actor_clock::time_point then{std::chrono::nanoseconds(ns)};
  clock = std::max(clock, then);
  fibers_->set_time(std::uint64_t(clock.time_since_epoch().count()));
}

void world::at(std::uint64_t ns, std::string what, std::function<void()> act) {
  events_.emplace(ns, event{std::move(what), std::move(act)});
}

const world::runner* world::runner_on(std::uint64_t fiber) const {
  for (const auto& x : runners_)
    if (x->fiber == fiber)
      return x.get();
  return nullptr;
}

std::vector<world::candidate> world::candidates() {
  std::vector<candidate> out;
  for (std::size_t i = 0; i < coordinator_->jobs.size(); ++i)
    out.push_back({actor_of(coordinator_->jobs[i]).id(), i, 0});
  for (const auto which : fibers_->runnable())
    out.push_back({is_fiber | which, 0, which});
  return out;
}

std::uint64_t world::priority(std::uint64_t key) const {
  const auto found = fallen_.find(key);
  return found != fallen_.end() ? found->second : mixed(key ^ mix_.salt) | is_fiber;
}

const world::candidate& world::choose(const std::vector<candidate>& all) {
  if (mix_.goes_on > 0 && choices_.happens(mix_.goes_on))
    for (const auto& x : all)
      if (x.key == last_key_)
        return x;
  switch (mix_.by) {
    case mix::order::priorities: {
      const auto& highest
          = *std::max_element(all.begin(), all.end(), [&](const auto& a, const auto& b) {
              return priority(a.key) < priority(b.key);
            });
      if (!mix_.change_points.empty() && mix_.change_points.front() <= turns_) {
        mix_.change_points.erase(mix_.change_points.begin());
        fallen_[highest.key] = is_fiber - 1 - lowest_++;
      }
      return highest;
    }
    case mix::order::starving: {
      const auto starves = [&](const candidate& x) { return mixed(x.key ^ mix_.salt) % 5 == 0; };
      std::vector<const candidate*> fed;
      for (const auto& x : all)
        if (!starves(x))
          fed.push_back(&x);
      if (!fed.empty())
        return *fed[choices_.below(fed.size())];
      [[fallthrough]];
    }
    case mix::order::uniform:
      return all[choices_.below(all.size())];
    default:  // fibers first: they are few; actors are in order of arrival
      return all.back().key >= is_fiber ? all.back() : all.front();
  }
}

bool world::timed_turn() {
  auto& jobs = coordinator_->jobs;
  for (auto* const job : jobs)
    handling_.push_back({now_ns() + handling_ns_, job});
  jobs.clear();
  if (const auto able = fibers_->runnable(); !able.empty()) {
    ++turns_;
    run_fiber(able.front());
    return true;
  }
  if (handling_.empty() || next_event() < handling_.front().until)
    return advance(false);
  const auto next = handling_.front();
  handling_.pop_front();
  ++turns_;
  set_time(next.until);
  jobs.push_front(next.job);
  run_actor(0);
  return true;
}

bool world::turn() {
  if (handling_ns_ > 0)
    return timed_turn();
  if (mix_.early_timer > 0 && choices_.happens(mix_.early_timer) && advance(true))
    return true;
  if (!events_.empty() && events_.begin()->first <= now_ns())
    return advance(false);
  const auto all = candidates();
  if (all.empty())
    return advance(false);
  const auto chosen = choose(all);
  last_key_ = chosen.key;
  ++turns_;
  if (chosen.key >= is_fiber)
    run_fiber(chosen.fiber);
  else
    run_actor(chosen.job);
  return true;
}

// Called while code outside a fiber waits for a lane to end.
bool world::turn_of_fibers() {
  const auto able = fibers_->runnable();
  if (able.empty()) {
    const auto wake = fibers_->next_wake();
    if (!wake)
      return false;
    set_time(*wake);
    return true;
  }
  ++turns_;
  run_fiber(able[choices_.below(able.size())]);
  return true;
}

std::uint64_t world::next_timer() const {
  const auto& timers = coordinator_->clock().schedule();
  return timers.empty() ? never : std::uint64_t(timers.begin()->first.time_since_epoch().count());
}

std::uint64_t world::next_event() const {
  const auto event = events_.empty() ? never : events_.begin()->first;
  return std::min({next_timer(), fibers_->next_wake().value_or(never), event});
}

bool world::advance(bool early) {
  const auto timer = next_timer();
  const auto event = events_.empty() ? never : events_.begin()->first;
  const auto next = next_event();
  if (next == never || (early && (event == next || next > now_ns() + mix_.early_within_ns)))
    return false;
  ++turns_;
  set_time(next);
  if (event == next) {
    auto at = events_.extract(events_.begin());
    trace_->add(turns_, now_ns(), turn_trace::kind::event, 0, [&] { return at.mapped().what; });
    at.mapped().act();
    return true;
  }
  trace_->add(turns_, now_ns(), turn_trace::kind::timer, 0, [&] {
    return timer == next ? "a timer" : "a fiber wakes";
  });
  if (timer == next)
    coordinator_->clock().trigger_timeout();
  return true;
}

world::runner& world::idle_runner() {
  for (const auto& x : runners_)
    if (!x->busy)
      return *x;
  auto& made = *runners_.emplace_back(std::make_unique<runner>());
  made.fiber = fibers_->start("actors", [this, &made] {
    try {
      for (;;) {
        if (!made.assigned)
          runtime::running_fiber::current()->wait([&made] { return made.assigned; });
        made.assigned = false;
        coordinator_->run_once();
        tell_spawned(made.whose);
        made.busy = false;
      }
    } catch (const runtime::cancelled&) {
      // The world is ending.
    }
  });
  return made;
}

void world::run_actor(std::size_t place) {
  auto& jobs = coordinator_->jobs;
  auto* const job = jobs[place];
  jobs.erase(jobs.begin() + std::ptrdiff_t(place));
  jobs.push_front(job);
  auto& who = actor_of(job);
  const auto number = who.id();
  auto& known = seen_[number];
  if (known.name.empty())
    known = {name_of_actor(who), caf::actor_cast<caf::weak_actor_ptr>(who.address())};
  known.newest = message_type(who);
  trace_->add(turns_, now_ns(), turn_trace::kind::actor, number, [&] {
    return fmt::format("{}  {}", name_of(number), message_name(who));
  });
  if (look_)
    look_(number, message_type(who));
  if (const auto* const next = who.mailbox().peek(); look_at_message_ && next != nullptr)
    look_at_message_(number, *next);
  auto& by = idle_runner();
  by.assigned = by.busy = true;
  by.whose = number;
  fibers_->run(by.fiber);
  tell_spawned(number);  // so far; more follow if the turn waits
}

void world::run_fiber(std::uint64_t which) {
  trace_->add(turns_, now_ns(), turn_trace::kind::fiber, which, [&] { return fiber_text(which); });
  const auto* const by = runner_on(which);
  const auto whose = by == nullptr ? 0 : by->whose;
  fibers_->run(which);
  tell_spawned(whose);
}

std::string world::fiber_text(std::uint64_t which) const {
  const auto* const by = runner_on(which);
  return by == nullptr ? fibers_->name(which) : name_of(by->whose) + "  resumes";
}

void world::tell_spawned(caf::actor_id by) {
  const auto newest = system_->latest_actor_id();
  if (newest > told_ && spawned_)
    spawned_(by, told_ + 1, newest);
  told_ = newest;
}

std::vector<world::known_actor> world::living() {
  std::vector<known_actor> out;
  for (const auto& [number, x] : seen_)
    if (const auto alive = find(number))
      out.push_back({number, x.name});
  std::ranges::sort(out, {}, &known_actor::number);
  return out;
}

caf::actor world::find(caf::actor_id number) {
  const auto found = seen_.find(number);
  if (found == seen_.end())
    return {};
  const auto alive = caf::actor_cast<caf::actor>(found->second.handle);
  if (!alive
      || caf::actor_cast<caf::abstract_actor*>(alive)->getf(
          caf::abstract_actor::is_terminated_flag))
    return {};
  return alive;
}

std::string world::name_of(caf::actor_id number) const {
  const auto found = seen_.find(number);
  return fmt::format("{}#{}", found == seen_.end() ? "actor" : found->second.name, number);
}

std::string world::kind_of(caf::actor_id number) const {
  const auto found = seen_.find(number);
  return found == seen_.end() ? std::string() : found->second.name;
}

std::string world::newest_of(caf::actor_id number) const {
  const auto found = seen_.find(number);
  if (found == seen_.end() || found->second.newest == typeid(void))
    return "beginning";
  const std::unique_ptr<char, decltype(&std::free)> whole(
      abi::__cxa_demangle(found->second.newest.name(), nullptr, nullptr, nullptr), &std::free);
  const std::string text = whole ? whole.get() : found->second.newest.name();
  return text.substr(text.find_last_of(':') + 1);
}

std::size_t world::running() const {
  return system_->registry().running();
}

std::vector<std::string> world::on_fibers() const {
  std::vector<std::string> out;
  for (const auto which : fibers_->alive())
    if (const auto* const by = runner_on(which); by == nullptr || by->busy)
      out.push_back(fiber_text(which));
  return out;
}

void world::end_at_once(const std::vector<caf::actor_id>& which) {
  const std::unordered_set<caf::actor_id> all(which.begin(), which.end());
  const auto is_one = [&](caf::actor_id x) { return all.contains(x); };
  std::erase_if(handling_, [&](const auto& x) {
    if (!is_one(actor_of(x.job).id()))
      return false;
    coordinator_->jobs.push_back(x.job);
    return true;
  });
  std::erase_if(runners_, [&](const auto& x) {
    if (!x->busy || !is_one(x->whose))
      return false;
    fibers_->abandon(x->fiber);
    while (!fibers_->has_ended(x->fiber))
      fibers_->run(x->fiber);
    return true;
  });
  // Urgent messages come first in a mailbox, so an actor's next turn is its last. An actor that has
  // not begun is known after its first turn.
  for (auto told = which;;) {
    for (const auto number : told)
      if (const auto alive = find(number))
        caf::anon_send_exit(alive, caf::exit_reason::kill);
    auto& jobs = coordinator_->jobs;
    const auto at = std::find_if(
        jobs.begin(), jobs.end(), [&](auto* job) { return is_one(actor_of(job).id()); });
    if (at == jobs.end())
      return;
    told = {actor_of(*at).id()};
    run_actor(std::size_t(at - jobs.begin()));
  }
}

}  // namespace troupe::actors::simulation
