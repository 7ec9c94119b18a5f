#include "runtime/launch/launch_environment.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/core/number_range.hpp"
#include "runtime/core/shortened.hpp"
#include "runtime/launch/hosts.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::int64_t most_processes = 1 << 20;
constexpr whole_range restart_range = {.most = 1 << 20};

/// A launcher and its variables.
struct launcher_row {
  const char *name, *rank, *world, *local_rank, *local_world;
};
constexpr launcher_row srun = {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "", ""};
constexpr launcher_row torchrun
    = {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr launcher_row mpiexec
    = {"mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr launcher_row mpirun = {"mpirun",
                                 "OMPI_COMM_WORLD_RANK",
                                 "OMPI_COMM_WORLD_SIZE",
                                 "OMPI_COMM_WORLD_LOCAL_RANK",
                                 "OMPI_COMM_WORLD_LOCAL_SIZE"};

/// A variable without a value counts as not set.
class variables {
 public:
  explicit variables(const variable_reader& read) : read_(read) {}

  std::string text(const char* name) const {
    const char* const value = read_(name);
    return value == nullptr ? "" : value;
  }
  bool has(const char* name) const { return !text(name).empty(); }

  /// `why` also says what to do.
  [[noreturn]] void refuse(const char* name, const std::string& why) const {
    throw input_error("the environment has {}={}: {}", name, shortened(text(name), 100), why);
  }

  std::optional<std::int64_t> number(const char* name, const whole_range& range = {}) const {
    const auto out = number_in(range, text(name));
    if (has(name) && !out)
      refuse(name, "expected " + range_text(range) + "; correct or unset it");
    return out;
  }

 private:
  const variable_reader& read_;
};

/// Without hosts and rendezvous.
std::optional<launch_environment> ranked_by(const launcher_row& row, const variables& v) {
  const auto rank = v.number(row.rank, {.most = most_processes});
  const auto world = v.number(row.world, {.least = 1, .most = most_processes});
  if (!rank && !world)
    return std::nullopt;
  if (!rank || !world || *rank >= *world)
    v.refuse(rank ? row.rank : row.world,
             fmt::format("{} sets {} from 0 to below {}; start this command by it, or unset both",
                         row.name,
                         row.rank,
                         row.world));
  launch_environment out{.launcher = row.name, .rank = int(*rank), .world = int(*world)};
  out.local_world = v.number(row.local_world, {.least = 1, .most = *world});
  out.local_rank = v.number(row.local_rank, {.most = out.local_world.value_or(out.world) - 1});
  return out;
}

void add_hosts_of_step(const variables& v, launch_environment& to) {
  constexpr const char *list = "SLURM_STEP_NODELIST", *counts = "SLURM_STEP_TASKS_PER_NODE";
  to.hosts = hosts_in_list(v.text(list), list);
  to.tasks = counts_in_list(v.text(counts), counts);
  if (to.hosts.size() != to.tasks.size()
      || std::accumulate(to.tasks.begin(), to.tasks.end(), 0) != to.world)
    v.refuse(
        counts,
        fmt::format("{} and SLURM_STEP_NUM_TASKS={} contradict it; leave them as srun set them",
                    list,
                    to.world));
  to.node = v.number("SLURM_NODEID", {.most = std::int64_t(to.hosts.size()) - 1});
  if (to.node)
    to.local_world = to.tasks[std::size_t(*to.node)];
  to.local_rank = v.number("SLURM_LOCALID", {.most = to.local_world.value_or(to.world) - 1});
}

/// "s0.s2" of "s0.s2.node7", as topology plugins of Slurm name a host in "switch.switch.node".
std::string domain_of_step(const variables& v) {
  const auto address = v.text("SLURM_TOPOLOGY_ADDR");
  const auto dot = address.rfind('.');
  const bool has_parts = v.text("SLURM_TOPOLOGY_ADDR_PATTERN").ends_with(".node");
  return has_parts && dot != address.npos ? address.substr(0, dot) : "";
}

/// Below Kubernetes' node ports (30000) and Linux' ephemeral ports (32768).
std::uint16_t derived_port(std::uint64_t number) {
  constexpr std::uint64_t first = 15000, count = 15000;
  return std::uint16_t(first + number % count);
}

// Only srun sets SLURM_STEP_ID; the shell of salloc may be a step of one task with number 2^32 - 6.
// SLURM_LAUNCH_NODE_IPADDR is the host of srun, which may have no rank.
std::optional<launch_environment> by_slurm(const variables& v) {
  const auto job = v.number("SLURM_JOB_ID", {.most = UINT32_MAX});
  if (!job)
    return std::nullopt;
  launch_environment out;
  out.id = std::to_string(*job);
  const auto step = v.number("SLURM_STEP_ID", {.most = UINT32_MAX});
  if (auto task = step ? ranked_by(srun, v) : std::nullopt) {
    out = std::move(*task);
    add_hosts_of_step(v, out);
    out.domain = domain_of_step(v);
    out.id = fmt::format("{}.{}", *job, *step);
    out.address = out.hosts.front();
    constexpr std::uint64_t apart = 997;  // jobs with near numbers and their steps differ
    out.port = derived_port(std::uint64_t(*job) + std::uint64_t(*step) * apart);
  }
  out.restarts = int(v.number("SLURM_RESTART_COUNT", restart_range).value_or(0));
  out.end = v.number("SLURM_JOB_END_TIME", {.most = UINT32_MAX});
  return out;
}

// OMPI_COMM_WORLD_NODE_RANK counts processes of a host, not hosts.
std::optional<launch_environment> by_mpirun(const variables& v) {
  auto out = ranked_by(mpirun, v);
  if (!out)
    return std::nullopt;
  out->id = v.text("PMIX_NAMESPACE");
  if (out->local_world == out->world && !out->id.empty()) {
    out->address = "127.0.0.1";
    out->port = derived_port(hash64(out->id));
  }
  return out;
}

std::optional<launch_environment> by_torchrun(const variables& v) {
  if (!v.has("RANK"))  // WORLD_SIZE alone: see require_same_world
    return std::nullopt;
  auto out = ranked_by(torchrun, v);
  for (const auto* name : {"MASTER_ADDR", "MASTER_PORT"})
    if (!v.has(name))
      v.refuse("RANK",
               fmt::format("{} is not set; give it one value for all ranks, start this command by "
                           "torchrun, or unset RANK",
                           name));
  out->id = v.text("TORCHELASTIC_RUN_ID");
  out->restarts = int(v.number("TORCHELASTIC_RESTART_COUNT", restart_range).value_or(0));
  return out;
}

/// LAUNCH-1. `outer` started `inner`, and `inner` this process.
launch_environment within(launch_environment outer, launch_environment inner) {
  // Without an id it is one launcher under two names: srun with PMI-2, or a script that copies
  // SLURM_PROCID to RANK.
  const bool is_same
      = !outer.launcher.empty() && outer.rank == inner.rank && outer.world == inner.world;
  if (!is_same && outer.world > 1 && outer.local_world != 1)
    throw input_error(
        "the environment says that this process is rank {} of {} by {}, and rank {} of {} by {}: "
        "start this command by one of them; torchrun may be started once on each host",
        outer.rank,
        outer.world,
        outer.launcher,
        inner.rank,
        inner.world,
        inner.launcher);
  auto out = is_same && inner.id.empty() ? outer : inner;
  out.restarts = outer.restarts + inner.restarts;
  out.end = outer.end;
  return out;
}

/// PMIx has a rank, but no variable for the number of ranks.
void require_same_rank(const variables& v,
                       std::span<const std::optional<launch_environment>> found) {
  const auto rank = v.number("PMIX_RANK");
  const auto has_it = [&](const auto& x) { return x && !x->launcher.empty() && x->rank == *rank; };
  if (rank && std::none_of(found.begin(), found.end(), has_it))
    v.refuse("PMIX_RANK",
             "no launcher has this rank and the number of ranks; start this command by srun or "
             "Open MPI's mpirun, or unset it");
}

void require_same_world(const variables& v, const std::optional<launch_environment>& x) {
  const auto world = v.number("WORLD_SIZE", {.least = 1, .most = most_processes});
  if (world && !v.has("RANK") && *world != (x ? x->world : 1))
    v.refuse("WORLD_SIZE",
             fmt::format("RANK is not set, and this process is one of {}; start this command by "
                         "torchrun, srun or mpirun, or unset it",
                         x ? x->world : 1));
}

void add_told_rendezvous(const variables& v, launch_environment& to) {
  if (v.has("MASTER_ADDR"))
    to.address = v.text("MASTER_ADDR");
  // torchrun may listen at its port itself.
  const int step = v.text("TORCHELASTIC_USE_AGENT_STORE") == "True" ? 1 : 0;
  if (const auto port = v.number("MASTER_PORT", {.least = 1, .most = UINT16_MAX - step}))
    to.port = std::uint16_t(*port + step);
  if (!to.address.empty() && to.port == 0)
    v.refuse("MASTER_ADDR", "MASTER_PORT is not set; give it one value for all ranks");
}

}  // namespace

std::optional<launch_environment> launch_environment_of(const variable_reader& read) {
  const variables v(read);
  std::optional<launch_environment> out;
  const std::optional<launch_environment> found[]  // the outermost first
      = {by_slurm(v), ranked_by(mpiexec, v), by_mpirun(v), by_torchrun(v)};
  for (const auto& x : found)
    if (x)
      out = out ? within(*out, *x) : *x;
  require_same_rank(v, found);
  require_same_world(v, out);
  if (out && !out->launcher.empty())
    add_told_rendezvous(v, *out);
  return out;
}

}  // namespace troupe::runtime
