#include "actors/command/schedule_plans.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/file/file.hpp"
#include "runtime/model/stages.hpp"
#include "runtime/schedule/automatic.hpp"
#include "runtime/schedule/behaviour.hpp"
#include "runtime/schedule/csv.hpp"
#include "runtime/schedule/lower.hpp"
#include "runtime/script/schedule_script.hpp"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>

namespace troupe::command {
namespace {

namespace fs = std::filesystem;
using runtime::counted;
using runtime::input_error;
using runtime::plan;

// Limit of times and memory, so that the sums of very many stay finite.
constexpr double largest_cost = 1e15;

std::string without_blanks(const std::string& x) {
  const auto first = std::min(x.find_first_not_of(" \t"), x.size());
  return x.substr(first, x.find_last_not_of(" \t") + 1 - first);
}

/// Reads "1,2,1" or "1, 2, 1": one number per name.
list_reader numbers(std::vector<std::pair<const char*, double*>> to) {
  return [to = std::move(to)](const std::string& flag, const std::vector<std::string>& words) {
    std::string form, example;
    for (std::size_t i = 0; i < to.size(); ++i) {
      form += fmt::format("{}{}", i ? "," : "", to[i].first);
      example += i ? ",1" : "1";
    }
    const auto& text = words.front();
    std::vector<std::string> cells(1);
    for (const char c : text)
      if (c == ',')
        cells.emplace_back();
      else
        cells.back() += c;
    if (cells.size() != to.size())
      throw usage_error(
          "{} {}: give {} numbers, {}, such as {}", flag, text, to.size(), form, example);
    for (std::size_t i = 0; i < to.size(); ++i)
      *to[i].second = parse_real(flag, without_blanks(cells[i]), {0, largest_cost});
  };
}

int required(const std::optional<int>& x, const char* flag, const std::string& name) {
  if (!x)
    throw usage_error(
        "{} is missing: '{}' needs a number of ranks and of micro-batches, such as --ranks 4 "
        "--microbatches 8",
        flag,
        name);
  return *x;
}

std::vector<std::int64_t> layers_of(const schedule_flags& flags) {
  return runtime::layers_of_stages(flags.layout, "--layout");
}

/// Cost of each stage by its layers, relative to a rank's whole share.
std::vector<double> shares(int ranks, const std::vector<std::int64_t>& layers) {
  const auto all = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
  std::vector<double> out;
  out.reserve(layers.size());
  for (const auto n : layers)
    out.push_back(double(ranks) * double(n) / double(all));
  return out;
}

runtime::action_costs scaled(const runtime::action_costs& x, double by) {
  return {x.forward * by,
          x.input_gradients * by,
          x.weight_gradients * by,
          x.recompute * by,
          x.overlapped * by};
}

/// Chunks per rank by --chunks, or by the stages of --layout; 0: not given.
int chunks_by_layout(const runtime::named_schedule& of, int ranks, const schedule_flags& flags) {
  if (flags.chunks_per_rank || flags.layout.empty() || !of.other_chunks)
    return flags.chunks_per_rank.value_or(0);
  const auto stages = int(layers_of(flags).size());
  return stages % ranks == 0 ? stages / ranks : 0;
}

chosen_plan generated(const runtime::named_schedule& of, const schedule_flags& flags) {
  const std::string name(of.name);
  runtime::schedule_request request;
  request.ranks = required(flags.ranks, "--ranks", name);
  request.microbatches = required(flags.microbatches, "--microbatches", name);
  request.chunks_per_rank = chunks_by_layout(of, request.ranks, flags);
  request.group = flags.group.value_or(0);
  request.memory_limit = flags.memory_limit.value_or(0);
  request.costs = flags.times;
  request.transfer = flags.transfer;
  if (name != "auto")
    return {runtime::generate(name, request), "", std::nullopt};
  if (!flags.layout.empty())
    for (const double part : shares(request.ranks, layers_of(flags)))
      request.each.push_back(scaled(flags.times, part));
  auto found = runtime::find_best(request);
  return {std::move(found.what), found.from, found.lower_bound};
}

plan rehearsed(const runtime::behaviour_factory& factory, const schedule_flags& flags) {
  const int ranks = required(flags.ranks, "--ranks", factory.name);
  plan frame;
  frame.name = factory.name;
  frame.chunks = ranks * factory.chunks_per_rank;
  frame.ranks.resize(std::size_t(ranks));
  return runtime::rehearse(factory,
                           ranks,
                           required(flags.microbatches, "--microbatches", factory.name),
                           costs_of(frame, flags));
}

void require_same(const std::string& file, const char* what, const char* flag, int has, int said) {
  if (has != said)
    throw input_error("'{}' has {} {}, but {} is {}: leave the flag out, or write the plan again",
                      file,
                      has,
                      what,
                      flag,
                      said);
}

plan from_file(const std::string& path, const schedule_flags& flags) {
  auto out = runtime::plan_from_csv(runtime::read_text(path), path);
  const auto ranks = int(out.ranks.size());
  require_same(path, "rows, one per rank", "--ranks", ranks, flags.ranks.value_or(ranks));
  require_same(path,
               "micro-batches",
               "--microbatches",
               out.microbatches,
               flags.microbatches.value_or(out.microbatches));
  if (flags.chunks_per_rank)
    require_same(path, "stages", "--chunks", out.chunks, *flags.chunks_per_rank * ranks);
  return out;
}

plan from_script(const std::string& path, const schedule_flags& flags) {
  const runtime::schedule_script script(path, runtime::read_text(path));
  if (flags.chunks_per_rank)
    require_same(
        path, "chunks per rank", "--chunks", script.chunks_per_rank(), *flags.chunks_per_rank);
  if (script.is_behaviour())
    return rehearsed(script.behaviours(), flags);
  return script.make_plan(required(flags.ranks, "--ranks", path),
                          required(flags.microbatches, "--microbatches", path));
}

[[noreturn]] void refuse_name(const std::string& argument) {
  std::vector<std::string> names;
  for (const auto& x : runtime::named_schedules())
    names.emplace_back(x.name);
  const auto close = nearest(argument, names);
  throw usage_error(
      "'{}' is neither a schedule nor a file: {}`troupe schedule plan` lists the schedules, and a "
      "file is FILE.csv or FILE.lua",
      argument,
      close.empty() ? "" : fmt::format("did you mean {}? ", close));
}

}  // namespace

void declare_plan(command_line& line, schedule_flags& to) {
  constexpr int most = 1 << 20;
  line.group("Plan");
  line.value("--ranks", "P", "Pipeline ranks.", whole(to.ranks, 1, most));
  line.value("--microbatches",
             "M",
             "Micro-batches of one replica in a step.",
             whole(to.microbatches, 1, most));
  line.value({.name = "--chunks",
              .type = "V",
              .default_value = "as the schedule needs",
              .help = "Model chunks (virtual pipeline stages) on each rank."},
             whole(to.chunks_per_rank, 1, most));
  line.value({.name = "--group",
              .type = "N",
              .default_value = "the number of ranks",
              .help = "With interleaved and izb: micro-batches of a chunk before the rank "
                      "continues with the next chunk."},
             whole(to.group, 1, most));
  line.value("--memory-limit",
             "X",
             "Memory limit of each rank, in activations of one micro-batch through its whole "
             "share, held from F (forward) to B (backward) or W (weight gradients), independently "
             "of --held. zb-h2 and auto plan within it; other plans above it are refused.",
             real(to.memory_limit, 0, largest_cost));
  line.toggle(
      "--lowered",
      "Writes out sends, receives and the reduction of gradients, and splits B into I and W.",
      [&to] { to.lowered = true; });
}

void declare_costs(command_line& line, schedule_flags& to) {
  auto& t = to.times;
  line.group("Costs of actions");
  line.values({.name = "--times",
               .type = "F,I,W",
               .default_value = "1,1,1",
               .help = "Times of forward, input gradients and weight gradients of a rank's whole "
                       "share, in any unit; a chunk takes 1/V of them.",
               .least = 1,
               .most = 1},
              numbers({{"F", &t.forward}, {"I", &t.input_gradients}, {"W", &t.weight_gradients}}));
  line.value(
      {.name = "--comm", .type = "C", .help = "Time of a transfer from one rank to another."},
      real(to.transfer, 0, largest_cost));
  line.value({.name = "--queues",
              .type = "N",
              .help = "Send queues of a rank. 0: all transfers at once. 1: one after the other. 2: "
                      "one queue for activations and one for gradients."},
             whole(to.queues, 0, 2));
  line.value(
      {.name = "--overlap",
       .type = "X",
       .default_value = "F + I + W",
       .help = "Time of an overlapped pair: a forward and a backward of a rank's whole share."},
      real(t.overlapped, 0, largest_cost));
  line.value({.name = "--overhead", .type = "X", .help = "Time before each action."},
             real(to.overhead, 0, largest_cost));
  line.values(
      {.name = "--held",
       .type = "F,I",
       .default_value = "1,1",
       .help = "Memory of one micro-batch of a rank's whole share from F to I, and from I to W.",
       .least = 1,
       .most = 1},
      numbers({{"F", &to.held.before_input_gradients}, {"I", &to.held.before_weight_gradients}}));
  line.value("--layout",
             "TEXT",
             "Uneven stages in Megatron-LM's notation, e.g. Et*3|(tt|)*6tL; a stage costs as much "
             "as its layers.",
             text(to.layout));
}

chosen_plan plan_of(const std::string& argument, const schedule_flags& flags) {
  if (const auto* named = runtime::find_schedule(argument))
    return generated(*named, flags);
  const auto kind = fs::path(argument).extension();
  std::error_code failure;
  if (kind == ".lua")
    return {from_script(argument, flags), "", std::nullopt};
  if (kind == ".csv" || fs::exists(argument, failure))
    return {from_file(argument, flags), "", std::nullopt};
  refuse_name(argument);
}

chosen_plan sound_plan_of(const std::string& argument, const schedule_flags& flags) {
  auto out = plan_of(argument, flags);
  const auto report = runtime::check_plan(out.what, settings_of(out.what, flags));
  if (!report.is_sound())
    throw input_error(
        "'{}' cannot be executed:\n"
        "  {}",
        argument,
        fmt::join(report.complaints, "\n  "));
  if (flags.lowered)
    out.what = runtime::lowered(out.what);
  return out;
}

runtime::cost_model costs_of(const plan& x, const schedule_flags& flags) {
  const auto ranks = int(x.ranks.size());
  std::vector<double> parts = {double(ranks) / double(x.chunks)};
  if (!flags.layout.empty()) {
    const auto layers = layers_of(flags);
    if (int(layers.size()) != x.chunks)
      throw input_error("--layout '{}' has {}, but '{}' has {}: give the same number",
                        flags.layout,
                        counted(std::int64_t(layers.size()), "stage"),
                        x.name,
                        counted(std::int64_t(x.chunks), "stage"));
    parts = shares(ranks, layers);
  }
  runtime::cost_model out;
  out.costs.clear();
  out.held.clear();
  for (const double part : parts) {
    out.costs.push_back(scaled(flags.times, part));
    out.held.push_back(
        {flags.held.before_input_gradients * part, flags.held.before_weight_gradients * part});
  }
  out.transfer = flags.transfer;
  out.queues = flags.queues;
  out.overhead = flags.overhead;
  return out;
}

runtime::check_settings settings_of(const plan& x, const schedule_flags& flags) {
  const double part = double(x.ranks.size()) / double(x.chunks);
  return {.memory_limit = flags.memory_limit.value_or(0), .held = {{part, part}}};
}

std::string size_of(const plan& x) {
  return fmt::format("{}, {}, {}{}",
                     counted(std::int64_t(x.ranks.size()), "rank"),
                     counted(std::int64_t(x.chunks), "stage"),
                     counted(std::int64_t(x.microbatches), "micro-batch", "micro-batches"),
                     x.copies > 1 ? fmt::format(", {} copies of the model", x.copies) : "");
}

const std::string& only_name(const schedule_flags& flags, const command_line& line) {
  if (flags.names.size() != 1)
    throw usage_error(
        "give one schedule or file, as in: {} 1f1b --ranks 4 --microbatches 8; there {} {}",
        line.path(),
        flags.names.empty() ? "is" : "are",
        flags.names.empty() ? std::string("none") : std::to_string(flags.names.size()));
  return flags.names.front();
}

}  // namespace troupe::command
