#include "actors/command/commands.hpp"
#include "actors/command/flags.hpp"
#include "actors/command/named_hosts.hpp"
#include "actors/command/placed_hosts.hpp"
#include "actors/command/print.hpp"
#include "actors/command/shape_and_layout.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/family/families.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/layout/mesh.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::command {
namespace {

using runtime::axis;
using runtime::axis_set;
using runtime::mesh;

constexpr std::int64_t most_sized = 1 << 16;  ///< of one size

struct layout_flags {
  std::optional<std::int64_t> world, expert_tensor;
  std::int64_t tensor = 1, context = 1, expert = 1, pipeline = 1;
  std::string order = "tp-cp-ep-dp-pp";
  std::string hosts;
  std::optional<std::int64_t> processes;
  std::filesystem::path failure_domains;
  bool json = false;
};

struct group_list {
  const char* name;
  std::vector<std::vector<int>> groups;
};

struct two_views {
  mesh dense, experts;
  std::optional<placed_hosts> placed = {};
};

/// The word embedding is used by the first and the last rank of each pipeline.
std::vector<group_list> embedding_groups(const mesh& dense) {
  group_list words{"embedding", {}}, positions{"position embedding", {}};
  for (const auto& pipeline : dense.groups(axis::pipeline)) {
    auto& ends = words.groups.emplace_back(1, pipeline.front());
    if (pipeline.size() > 1)
      ends.push_back(pipeline.back());
    positions.groups.push_back({pipeline.front()});
  }
  return {std::move(words), std::move(positions)};
}

std::vector<group_list> all_groups(const two_views& x) {
  std::vector<group_list> out = {{"TP", x.dense.groups(axis::tensor)},
                                 {"CP", x.dense.groups(axis::context)},
                                 {"DP", x.dense.groups(axis::data)},
                                 {"DP-CP", x.dense.groups({axis::data, axis::context})},
                                 {"PP", x.dense.groups(axis::pipeline)},
                                 {"TP-PP", x.dense.groups({axis::tensor, axis::pipeline})},
                                 {"EP", x.experts.groups(axis::expert)},
                                 {"ETP", x.experts.groups(axis::expert_tensor)},
                                 {"EDP", x.experts.groups(axis::expert_data)}};
  for (auto& more : embedding_groups(x.dense))
    out.push_back(std::move(more));
  return out;
}

/// The rank's coordinates: columns of the table and keys of the JSON.
std::vector<std::pair<const char*, int>> places(const two_views& x, int rank) {
  const auto at = x.dense.at(rank), expert = x.experts.at(rank);
  return {{"tp", at[axis::tensor]},
          {"cp", at[axis::context]},
          {"dp", at[axis::data]},
          {"pp", at[axis::pipeline]},
          {"etp", expert[axis::expert_tensor]},
          {"ep", expert[axis::expert]},
          {"edp", expert[axis::expert_data]}};
}

std::vector<std::pair<const char*, int>> sizes(const two_views& x) {
  return {{"tp", x.dense.extent(axis::tensor)},
          {"cp", x.dense.extent(axis::context)},
          {"dp", x.dense.extent(axis::data)},
          {"pp", x.dense.extent(axis::pipeline)},
          {"etp", x.experts.extent(axis::expert_tensor)},
          {"ep", x.experts.extent(axis::expert)},
          {"edp", x.experts.extent(axis::expert_data)}};
}

std::string as_json(const two_views& x) {
  nlohmann::ordered_json out;
  out["world_size"] = x.dense.size();
  out["order"] = x.dense.order();
  for (const auto& [name, size] : sizes(x))
    out["sizes"][name] = size;
  for (const auto& list : all_groups(x))
    out["groups"][list.name] = list.groups;
  for (int rank = 0; rank < x.dense.size(); ++rank) {
    auto& row = out["ranks"].emplace_back();
    row["rank"] = rank;
    for (const auto& [name, place] : places(x, rank))
      row[name] = place;
  }
  if (x.placed)
    add_json(*x.placed, out);
  return runtime::json_text(out);
}

/// "TP      [0,1] [2,3] ...", wrapped at 100 columns.
std::string as_lines(const group_list& list) {
  constexpr std::size_t widest = 100, margin = 20;
  std::string out, line = fmt::format("{:<{}}", list.name, margin - 1);
  for (const auto& group : list.groups) {
    const auto word = fmt::format(" [{}]", fmt::join(group, ","));
    if (line.size() + word.size() > widest && line.size() > margin) {
      out += line + "\n";
      line.assign(margin - 1, ' ');
    }
    line += word;
  }
  return out + line + "\n";
}

std::string as_text(const two_views& x) {
  auto out = fmt::format("{} in the order {}:",
                         runtime::counted(std::int64_t(x.dense.size()), "rank"),
                         x.dense.order());
  for (const auto& [name, size] : sizes(x))
    out += fmt::format(" {} {}", name, size);
  out += "\n\n";
  if (x.placed)
    return out + as_text(*x.placed);
  for (const auto& list : all_groups(x))
    out += as_lines(list);
  out += "\n  rank";
  for (const auto& [name, size] : sizes(x))
    out += fmt::format("{:>6}", name);
  for (int rank = 0; rank < x.dense.size(); ++rank) {
    out += fmt::format("\n{:>6}", rank);
    for (const auto& [name, place] : places(x, rank))
      out += fmt::format("{:>6}", place);
  }
  return out + "\n";
}

/// "2": host-0 and host-1; otherwise names.
std::vector<runtime::host_slots> hosts_named(const std::string& text) {
  const auto count = runtime::number_in(whole_range{1, most_sized}, text);
  if (!count)
    return read_hosts(text);
  std::vector<runtime::host_slots> out;
  for (std::int64_t h = 0; h < *count; ++h)
    out.push_back({.name = fmt::format("host-{}", h), .slots = 0});
  return out;
}

/// The hosts of --hosts, with slots and domains.
std::vector<runtime::host_slots> hosts_of(const std::string& text,
                                          const std::filesystem::path& domains,
                                          std::int64_t processes) {
  auto hosts = hosts_named(text);
  std::set<std::string> names;
  for (const auto& host : hosts)
    if (host.name.empty() || !names.insert(host.name).second)
      throw usage_error("--hosts '{}' has {}: name each host once, as in a,b or a*4,b*8",
                        shown(text),
                        host.name.empty() ? "an empty name" : fmt::format("'{}' twice", host.name));
  if (const auto complaint = complaint_about_slots("--hosts", hosts, processes); !complaint.empty())
    throw usage_error("{}", complaint);
  share_processes(hosts, int(processes));
  if (!domains.empty())
    read_domains(domains, hosts);
  return hosts;
}

placed_hosts place_on_hosts(const layout_flags& flags, const two_views& x) {
  const int world = x.dense.size();
  const auto processes = flags.processes.value_or(world);
  if (processes > world)
    throw usage_error("--processes {} is more than the {}: give at most {}",
                      processes,
                      runtime::counted(world, "rank"),
                      world);
  return command::place_on_hosts(
      x.dense, x.experts, int(processes), hosts_of(flags.hosts, flags.failure_domains, processes));
}

int print_layout(const layout_flags& flags) {
  for (const auto& [given, flag] : {std::pair(flags.processes.has_value(), "--processes"),
                                    std::pair(!flags.failure_domains.empty(), "--failure-domains")})
    if (given && flags.hosts.empty())
      throw usage_error("{} needs --hosts: give --hosts, or leave it out", flag);
  const auto world = flags.world.value_or(flags.tensor * flags.context * flags.pipeline);
  constexpr std::int64_t most = 1 << 20;
  if (world > most)
    throw usage_error(
        "{} ranks are too many to show: give sizes with a product of at most {}", world, most);
  auto dense = runtime::make_mesh(
      int(world), int(flags.tensor), int(flags.context), int(flags.pipeline), flags.order);
  auto experts = runtime::fold_experts(
      dense, int(flags.expert), int(flags.expert_tensor.value_or(flags.tensor)));
  two_views both{std::move(dense), std::move(experts)};
  if (!flags.hosts.empty())
    both.placed = place_on_hosts(flags, both);
  if (flags.json)
    print_json(as_json(both));
  else
    print_page(as_text(both));
  return 0;
}

/// `otherwise`: without the flag; empty: it is required.
void declare_hosts(command_line& line, std::string& hosts, const char* otherwise) {
  line.value({.name = "--hosts",
              .type = "N|HOST,...",
              .default_value = otherwise,
              .help = "Shows the hosts instead of the groups: their number, or their names. "
                      "Each has an equal share of the processes, or N of them with HOST*N."},
             text(hosts));
}

constexpr auto without_hosts = "--hosts is missing: give the number or the names of the hosts";

/// "troupe layout gpt": the hosts of a model's layout.
void declare_layout(command_line& layout, const runtime::model_family& family) {
  auto& line = layout.command(std::string(family.name()),
                              "prints the hosts of a layout, with the bytes that ranks exchange.");
  const auto flags = std::make_shared<training_flags>(family);
  const auto hosts = std::make_shared<std::string>();
  const auto json = std::make_shared<bool>(false);
  declare_hosts(line, *hosts, "");
  line.toggle("--json", "Prints JSON, for programs.", [json] { *json = true; });
  declare(line, *flags);
  line.begins_with(fmt::format(
      "Required: --hosts; {}--micro-batch-size; --vocab-size, --tokenizer DIR or --tokenizer-type.",
      needed_by(family, line).names));
  line.note(fmt::format(
      "Takes the flags and configurations of `troupe train {}`; only shape, batch and layout "
      "matter. Each rank is a process unless --processes is given.",
      family.name()));
  line.tells_besides([flags, hosts] {
    auto out = what_is_missing(shape_and_layout(*flags));
    if (hosts->empty())
      out.emplace_back(without_hosts);
    return out;
  });
  line.runs([flags, hosts, json] {
    if (hosts->empty())
      throw usage_error(without_hosts);
    auto shape = shape_and_layout(*flags);
    const auto domains = std::exchange(shape.hosts, {}).failure_domains;
    auto job = resolve(shape);
    std::vector<runtime::memory_forecast> needs;
    const int processes
        = shape.given.contains("layout.processes") ? job.layout.processes : job.layout.world;
    job.layout.processes = 1;  // does not change what ranks exchange, and is faster
    for (const auto& group : runtime::forecast_workers(job))
      needs.push_back(group.need);
    job.layout.processes = processes;
    auto placed = command::place_on_hosts(job.layout, hosts_of(*hosts, domains, processes));
    add_received(needs, placed);
    if (!*json) {
      print_page(as_text(placed));
      return 0;
    }
    nlohmann::ordered_json out;
    add_json(placed, out);
    print_json(runtime::json_text(out));
    return 0;
  });
}

}  // namespace

void add_layout(command_line& program) {
  auto& line = program.command(
      "layout", "prints the coordinates and groups of each rank, numbered as in Megatron-LM.");
  for (const auto* family : runtime::families())
    declare_layout(line, *family);
  const auto flags = std::make_shared<layout_flags>();
  auto& x = *flags;
  constexpr auto most = most_sized;
  line.group("Sizes");
  line.value({.name = "--world-size",
              .type = "N",
              .default_value = "one replica",
              .help = "Number of ranks. The data-parallel size is this number divided by the other "
                      "sizes."},
             whole(x.world, 1, most));
  line.value({.name = "--tensor-model-parallel-size",
              .type = "N",
              .help = "Ranks that share each matrix product."},
             whole(x.tensor, 1, most));
  line.value(
      {.name = "--context-parallel-size", .type = "N", .help = "Ranks that share each sequence."},
      whole(x.context, 1, most));
  line.value({.name = "--pipeline-model-parallel-size", .type = "N", .help = "Pipeline stages."},
             whole(x.pipeline, 1, most));
  line.value({.name = "--expert-model-parallel-size",
              .type = "N",
              .help = "Ranks that share the experts."},
             whole(x.expert, 1, most));
  line.value({.name = "--expert-tensor-parallel-size",
              .type = "N",
              .default_value = "--tensor-model-parallel-size",
              .help = "Ranks that share each matrix product of an expert."},
             whole(x.expert_tensor, 1, most));
  line.group("Hosts");
  declare_hosts(line, x.hosts, "none");
  line.value({.name = "--processes",
              .type = "N",
              .default_value = "one for each rank",
              .help = "With --hosts: number of processes, each with an equal share of the ranks."},
             whole(x.processes, 1, most));
  line.value({.name = "--failure-domains",
              .type = "FILE",
              .default_value = "each host alone",
              .help = "With --hosts: lines 'HOST DOMAIN', such as 'host-1 rack-1'."},
             text(x.failure_domains));
  line.group("Order and form");
  line.value({.name = "--order",
              .type = "ORDER",
              .help = "Names of the axes, the fastest-varying first; axes of size 1 may be left "
                      "out."},
             text(x.order));
  line.toggle("--use-tp-pp-dp-mapping", "Same as --order tp-cp-ep-pp-dp.", [&x] {
    x.order = "tp-cp-ep-pp-dp";
  });
  line.toggle("--json", "Prints JSON, for programs.", [&x] { x.json = true; });
  line.note(
      "TP tensor, CP context, DP data, PP pipeline, EP expert, ETP and EDP tensor and data of "
      "experts. The ranks of a TP-PP group hold one copy of the model. Gradients of experts are "
      "summed over EDP groups, all others over DP-CP groups.");
  line.note(
      "Example: troupe layout --world-size 8 --tensor-model-parallel-size 2 "
      "--pipeline-model-parallel-size 2 --hosts 2");
  line.runs([flags] { return print_layout(*flags); });
}

}  // namespace troupe::command
