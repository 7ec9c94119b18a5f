#include "actors/simulation/play.hpp"

#include "actors/faults/fault_injector.hpp"
#include "actors/job/front.hpp"
#include "actors/simulation/lane_faults.hpp"
#include "actors/simulation/moments.hpp"
#include "actors/simulation/virtual_agent.hpp"
#include "actors/simulation/world.hpp"
#include "messages/core/error.hpp"
#include "runtime/core/error.hpp"

#include <caf/send.hpp>
#include <caf/system_messages.hpp>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe::actors::simulation {
namespace {

/// After `faulty_turns` no fault strikes and all run in order of arrival. The run must then end
/// within `calm_turns` and `calm_ns`.
constexpr std::uint64_t faulty_turns = 40'000, calm_turns = 40'000;
constexpr std::uint64_t calm_ns = 1'000'000'000'000;

/// State of the viewer that records the run. Its name distinguishes it from the job's actors.
struct viewer_state {
  static constexpr const char* name = "viewer";
};

messages::viewer_actor::behavior_type simulation_viewer(
    messages::viewer_actor::stateful_pointer<viewer_state>, seen_run* to) {
  return {[to](const messages::committed& x) { to->committed.push_back(x.report); },
          [to](const messages::validated& x) { to->validated.push_back(x.report); }};
}

/// Plays one run.
class played_run {
 public:
  played_run(const small_prepared& job, const run_plan& how)
      : how_(how),
        job_(job.job.opened().job),
        world_(how.seed, how.how, how.trace),
        network_(world_, {how.seed, 2}, how.how),
        process_(network_.add_process(network_.add_host(), told(job))),
        hosts_(network_,
               job_.layout.processes,
               how.hosts,
               process_.context()->messages,
               job_.recovery,
               [this, &job] {
                 auto out = told(job);
                 // Each fault strikes once per run, not once per process.
                 out.faults = process_.context()->faults;
                 return out;
               }) {}

  seen_run run(const messages::job_description& description) {
    arrange();
    const std::shared_ptr<const node_context> context = process_.context();
    if (job_.layout.processes > 1) {
      process_.context()->agent = world_.system().spawn(virtual_agent, &hosts_);
      network_.belongs(process_.context()->agent.id(), process_);
    }
    // Actors that the front spawns belong to its process.
    auto root = world_.system().spawn(
        front, description, context, [this](const outcome& x) { out_.end = x; }, std::nullopt);
    network_.belongs(root.id(), process_);
    process_.context()->drain = drain_by(root, context->messages);
    while (goes_on() && world_.turns() < faulty_turns && world_.turn()) {
    }
    if (goes_on() && world_.turns() >= faulty_turns)
      end_faults();
    look_at_the_rest();
    return std::move(out_);
  }

 private:
  // True while actors live or lanes are not yet joined.
  bool goes_on() const {
    const auto& all = network_.processes();
    return world_.running() > 0 || std::any_of(all.begin(), all.end(), [](const auto& x) {
             return !x->context()->reaper->is_idle();
           });
  }
  /// Living processes that may host ranks.
  std::vector<virtual_process*> hosting() const {
    return job_.layout.processes > 1 ? hosts_.living() : std::vector{&process_};
  }

  // The liveness phase: no faults from here on.
  void end_faults() {
    how_.trace->note("no more faults");
    calm_ = true;
    refusals_ = last_refusals_ = read_refusals_ = disk_ns_ = 0;
    world_.calm_down();
    network_.calm_down();
    const auto turns = world_.turns() + calm_turns, ns = world_.now_ns() + calm_ns;
    while (goes_on() && world_.turns() < turns && world_.now_ns() < ns && world_.turn()) {
    }
    out_.outlasts_faults = goes_on();
  }

  node_context told(const small_prepared& job) {
    auto out = *job.job.node;
    out.forget();
    out.viewers["simulation"] = [this](caf::actor_system& in, const drain_request& ask) {
      drain_ = ask;
      return in.spawn(simulation_viewer, &out_);
    };
    out.env.write_shard = [this](const std::filesystem::path& folder,
                                 const std::string& file,
                                 std::span<const runtime::shard_to_write> shards) {
      if (file.starts_with("model"))  // counts once per rank
        meet_disk();
      return runtime::write_shard_file(folder, file, shards);
    };
    if (out.restore_saved)
      out.restore_saved = [this, read = std::move(out.restore_saved)](runtime::worker& by,
                                                                      std::uint64_t iteration) {
        meet_reading();
        read(by, iteration);
      };
    plant(out);
    out.env.record = [this](const runtime::watched& x) {
      if (const auto* const step = std::get_if<runtime::step_report>(&x))
        out_.taken_down.push_back(step->iteration);
      else if (const auto* const event = std::get_if<runtime::run_event>(&x))
        take_down(*event);
    };
    return out;
  }

  void take_down(const runtime::run_event& x) {
    how_.trace->note(fmt::format("{} of {} at step {}, from {} {}: {}",
                                 x.kind,
                                 x.who,
                                 x.iteration,
                                 x.from,
                                 x.resumed,
                                 x.why));
    out_.events.push_back(x);
  }

  // Injects hanging lanes and wrong bits.
  void plant(node_context& to) {
    auto settings = job_.faults;
    for (const auto& x : planted_in(job_, how_.disturbances)) {
      settings.death += (settings.death.empty() ? "" : ",") + x.text;
      planted_.emplace(x.text, x.what);
    }
    if (!planted_.empty())
      to.faults = std::make_shared<fault_injector>(
          settings,
          fault_injector::simulated{
              .strikes = [this](const auto& x) { return begins(x); },
              .hang = [this](const auto& x) { return hangs(planted_.at(x.text)); }});
  }

  bool begins(const runtime::planted_death& x) {
    if (calm_ || out_.end)
      return false;
    how_.trace->note(x.text);
    out_.killed.push_back(x.text);
    return true;
  }

  bool hangs(const disturbance& x) {
    if (x.lasts_ns > 0) {
      runtime::sleep_for(std::chrono::nanoseconds(x.lasts_ns));
      return true;
    }
    runtime::running_fiber::current()->wait([this] { return out_.end.has_value(); });
    return false;
  }

  void arrange() {
    for (const auto& x : how_.disturbances) {
      how_.trace->note(to_string(x));
      if (x.what == disturbance::kind::slow_disk)
        disk_ns_ = x.lasts_ns;
      else if (x.what == disturbance::kind::refuse_disk)
        refusals_ = x.how_often;
      else if (x.what == disturbance::kind::refuse_last)
        last_refusals_ = x.how_often;
      else if (x.what == disturbance::kind::refuse_reads)
        read_refusals_ = x.how_often;
      else if (x.what == disturbance::kind::damage)
        damage_ = x.which;
      else if (x.what == disturbance::kind::hang || x.what == disturbance::kind::wrong_bits)
        continue;  // injected by plant()
      else if (x.what == disturbance::kind::kill_lane)
        network_.before_work([this](const std::string& lane) { work(lane); });
      else if (x.moment)
        waiting_.push_back({x, type_of_moment(x.moment->message), 0});
      else
        world_.at(x.at_ns, to_string(x), [this, x] { strike(x); });
    }
    if (!waiting_.empty() || damage_)
      world_.before_turn([this](caf::actor_id, std::type_index what) { look(what); });
  }

  struct waiting {
    disturbance what;
    std::type_index type;
    std::uint64_t count;
  };

  // Strikes before the message is handled. The end of a process is deferred: it runs turns of its
  // own, and a turn cannot contain another.
  void look(std::type_index message) {
    if (damage_ && message == typeid(messages::spawn_replica) && !calm_)
      damage();
    for (auto& x : waiting_) {
      if (calm_)
        return;
      if (x.type != message || ++x.count != x.what.moment->count)
        continue;
      if (x.what.what == disturbance::kind::kill_process) {
        world_.at(0, to_string(x.what), [this, what = x.what] { strike(what); });
        continue;
      }
      how_.trace->note(to_string(x.what));
      strike(x.what);
    }
  }

  void strike(const disturbance& x) {
    if (calm_)
      return;
    if (x.what == disturbance::kind::kill_process)
      return kill_process(x.which);
    if (x.what == disturbance::kind::part)
      return part(x);
    if (x.what == disturbance::kind::break_link)
      return break_link(x);
    if (x.what == disturbance::kind::drain && drain_) {
      out_.drained = true;
      return drain_("the simulation");
    }
    std::vector<world::known_actor> found;
    for (auto& one : world_.living())
      if (one.name == x.who)
        found.push_back(std::move(one));
    if (found.empty() || out_.end)
      return;
    const auto& victim = found[x.which % found.size()];
    const auto actor = world_.find(victim.number);
    if (x.what == disturbance::kind::stale)
      return send_stale(*process_.context()->messages, actor, x.who, out_.committed.size() + 1);
    // A process ends with its node.
    const auto whole = victim.name == "node" ? hosts_.name_of(network_.process_of(victim.number))
                                             : std::string();
    out_.killed.push_back(whole.empty() ? world_.name_of(victim.number) : whole);
    caf::anon_send(actor,
                   caf::exit_msg{actor.address(),
                                 messages::make_error(
                                     messages::ec::protocol_violated,
                                     fmt::format("{}: {}", out_.killed.back(), killed_text))});
  }

  // Excludes the supervisor's process: it holds the ledger in memory.
  void kill_process(std::uint64_t which) {
    const auto living = hosts_.living();
    if (living.empty() || out_.end)
      return;
    auto& victim = *living[which % living.size()];
    out_.killed.push_back(hosts_.name_of(&victim));
    how_.trace->note(out_.killed.back() + " is killed");
    network_.kill(victim);
  }

  // Partitions one direction between two processes; one may be the supervisor's.
  void part(const disturbance& x) {
    auto all = hosts_.living();
    if (all.empty())
      return;
    all.push_back(&process_);
    const auto [from, to] = two_of(all, x.which);
    network_.part(*from, *to, world_.now_ns() + x.lasts_ns);
  }

  // Excludes the supervisor's process: no tensors cross its connections.
  void break_link(const disturbance& x) {
    const auto all = hosts_.living();
    if (all.size() < 2 || out_.end)
      return;
    const auto [a, b] = two_of(all, x.which);
    const auto [first, last]
        = std::minmax({a->links()->self().process, b->links()->self().process});
    const auto name = fmt::format("connection:{}-{}", first, last);
    const broken_planes how{
        .tickets = x.who != "groups", .groups = x.who != "tickets", .heard_ns = x.heard_ns};
    if (!network_.wiring().break_off(
            *a->links(), *b->links(), how, fmt::format("{}: {}", name, broken_text)))
      return;
    out_.broken.push_back(name);
    how_.trace->note(name + " breaks");
  }

  static std::pair<virtual_process*, virtual_process*> two_of(
      const std::vector<virtual_process*>& all, std::uint64_t which) {
    const auto from = which % all.size();
    return {all[from], all[(from + 1 + which / all.size() % (all.size() - 1)) % all.size()]};
  }

  // Lanes of one kind are numbered in the order of their first task.
  void work(const std::string& lane) {
    auto& known = lanes_[lane.substr(0, lane.find(' '))];
    auto at
        = std::find_if(known.begin(), known.end(), [&](const auto& x) { return x.first == lane; });
    if (at == known.end())
      at = known.insert(known.end(), {lane, 0});
    ++at->second;
    for (const auto& x : how_.disturbances)
      if (!calm_ && x.what == disturbance::kind::kill_lane && lane.starts_with(x.who)
          && x.at_ns == at->second && x.which % 4 == std::uint64_t(at - known.begin())) {
        out_.killed.push_back(lane);
        throw std::runtime_error(fmt::format("{}: {}", lane, killed_text));
      }
  }

  // Runs when ranks of a new generation are spawned: those of the old one have ended.
  void damage() {
    int rank = -1;
    for (const auto* x : hosting())
      if (rank < 0)
        rank = damage_kept(*x->context()->estates, job_, *damage_);
    if (rank < 0)
      return;
    damage_.reset();
    out_.state_lost = true;
    out_.killed.push_back(fmt::format("the kept state of rank {}", rank));
    how_.trace->note(out_.killed.back() + " is damaged");
  }

  void meet_reading() {
    if (read_refusals_ == 0)
      return;
    --read_refusals_;
    out_.killed.emplace_back("disk");
    throw runtime::io_error("disk: {}", killed_text);
  }

  void meet_disk() {
    if (disk_ns_ > 0)
      runtime::sleep_for(std::chrono::nanoseconds(disk_ns_));
    auto& left = process_.context()->ledger->newest() < job_.train_iterations || refusals_ > 0
                     ? refusals_
                     : last_refusals_;
    if (left == 0)
      return;
    --left;
    out_.disk_refused = true;
    throw runtime::io_error("simulated disk error");
  }

  void look_at_the_rest() {
    out_.turns = world_.turns();
    out_.ns = world_.now_ns();
    for (const auto& x : network_.processes()) {
      if (x->is_dead())
        continue;
      out_.leased += x->leases().leased();
      out_.dropped += x->leases().counters().dropped - x->taken_back();
    }
    out_.exchanged = hosts_.exchanged();
    out_.recovers = job_.recovery.on;
    const auto& ledger = *process_.context()->ledger;
    for (const auto& x : ledger.restarts())
      out_.restarts.push_back(fmt::format("{} at step {}", x.who, x.step));
    for (std::uint64_t step = 1; step <= ledger.newest(); ++step)
      out_.ledger.push_back(ledger.state(step));
    out_.fibers_left = world_.on_fibers();
    out_.stuck_lanes = world_.fibers()->stuck();
    if (world_.running() > 0)
      for (const auto& x : world_.living())
        out_.actors_left.push_back(
            fmt::format("{} after {}", world_.name_of(x.number), world_.newest_of(x.number)));
    if (!job_.checkpoints.save.empty())
      out_.saved = hashes_of_weights(job_.checkpoints.save);
  }

  run_plan how_;
  runtime::training_job job_;
  seen_run out_;
  drain_request drain_;
  std::map<std::string, std::vector<std::pair<std::string, std::uint64_t>>> lanes_;
  std::uint64_t disk_ns_ = 0, refusals_ = 0, last_refusals_ = 0, read_refusals_ = 0;
  /// The kept state of this rank is damaged between two generations.
  std::optional<std::uint64_t> damage_;
  std::map<std::string, disturbance> planted_;
  bool calm_ = false;  ///< the liveness phase has begun
  std::vector<waiting> waiting_;
  world world_;
  virtual_network network_;
  virtual_process& process_;  ///< process of the supervisor
  virtual_hosts hosts_;
};

}  // namespace

seen_run play(const small_prepared& job, const run_plan& how) {
  const auto& folder = job.job.opened().job.checkpoints.save;
  if (!folder.empty())
    std::filesystem::remove_all(folder);
  job.training->take_asked();
  auto description = job.job.description;
  description.viewers.emplace_back("simulation");
  auto out = played_run(job, how).run(description);
  out.samples = job.training->take_asked();
  return out;
}

}  // namespace troupe::actors::simulation
