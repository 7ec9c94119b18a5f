#include "actors/command/commands.hpp"
#include "actors/command/doctor_gpu.hpp"
#include "actors/command/help_text.hpp"
#include "actors/command/print.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/libraries.hpp"
#include "runtime/core/shortened.hpp"
#include "runtime/job/build.hpp"
#include "runtime/launch/launch_environment.hpp"

#include <caf/config.hpp>

#include <cstdlib>
#include <filesystem>
#include <fmt/chrono.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>

namespace troupe::command {
namespace {

using nlohmann::ordered_json;

struct doctor_flags {
  std::filesystem::path folder = ".";
  bool json = false, measure = false;
};

/// What the environment says, or its fault.
std::string launcher_text() try {
  const auto x = runtime::launch_environment_of([](const char* name) { return std::getenv(name); });
  if (!x)
    return "";
  auto out = x->launcher.empty()
                 ? "this process runs alone in a job of Slurm"
                 : fmt::format(
                     "{} started this process as rank {} of {}", x->launcher, x->rank, x->world);
  if (x->local_rank && x->local_world)
    out += fmt::format(", local rank {} of {}", *x->local_rank, *x->local_world);
  if (x->node)
    out += fmt::format(
        " on {}, host {} of {}", x->hosts[std::size_t(*x->node)], *x->node, x->hosts.size());
  if (!x->id.empty())
    out += fmt::format("; the job is {}", runtime::shortened(x->id, 100));
  if (!x->address.empty())
    out += fmt::format("; rank 0 is at {}, port {}", x->address, x->port);
  if (x->restarts > 0)
    out += "; restarted " + runtime::counted(x->restarts, "time");
  if (x->end)
    out += fmt::format("; Slurm ends it at {:%Y-%m-%d %H:%M} UTC", fmt::gmtime(*x->end));
  return out;
} catch (const runtime::input_error& failure) {
  return failure.what();
}

machine_facts look(const doctor_flags& flags) {
  machine_facts out{.processor = runtime::look_at_processor(),
                    .memory = runtime::look_at_memory(),
                    .disk = runtime::look_at_disk(flags.folder),
                    .limits = runtime::look_at_limits(),
                    .gpus = runtime::look_at_gpus(),
                    .accelerators = {},
                    .transports = runtime::look_at_transports(),
                    .rates = std::nullopt,
                    .launcher = launcher_text()};
  // Loading a vendor's library takes a second, so it is skipped on machines without device and
  // driver. TROUPE_PLUGINS asks for a report on the plug-ins.
  out.accelerators = runtime::look_at_accelerators(may_have_gpu(out)
                                                   || std::getenv("TROUPE_PLUGINS") != nullptr);
  if (flags.measure)
    out.rates = runtime::measure_rates(out.processor.usable());
  return out;
}

std::vector<std::pair<std::string, std::string>> libraries() {
  auto out = runtime::library_versions();
  out.insert(
      out.begin(),
      {"CAF",
       fmt::format("{}.{}.{}", CAF_VERSION / 10000, CAF_VERSION / 100 % 100, CAF_VERSION % 100)});
  out.emplace_back("yaml-cpp", TROUPE_YAML_CPP_VERSION);
  return out;
}

std::string or_unlimited(const std::optional<std::int64_t>& x, bool is_bytes) {
  return !x ? "unlimited" : is_bytes ? runtime::human_bytes(*x) : std::to_string(*x);
}

std::string processor_text(const runtime::processor_facts& x) {
  return fmt::format(
      "{}; {} online, {} allowed, {}; {} can run at once",
      x.name.empty() ? "unknown model" : x.name,
      x.online,
      x.allowed,
      x.quota ? fmt::format("{:.2f} by control groups", *x.quota) : "not limited by control groups",
      x.usable());
}

std::string memory_text(const runtime::memory_facts& x) {
  return fmt::format("{}, {} available{}",
                     runtime::human_bytes(x.total),
                     runtime::human_bytes(x.available),
                     x.limit ? fmt::format("; limited to {} by control groups, {} in use",
                                           runtime::human_bytes(*x.limit),
                                           runtime::human_bytes(x.used_of_limit))
                             : "; not limited by control groups");
}

std::string transport_text(const runtime::transport_facts& x) {
  auto out = fmt::format("within the process; UCX library {}, ucx_info {}",
                         x.ucx.empty() ? "absent" : x.ucx,
                         x.tool ? "present" : "absent");
  if (!x.transports.empty())
    out += fmt::format(", which lists {}", fmt::join(x.transports, ", "));
  return out;
}

std::string rate_text(const runtime::measured_rates& x) {
  return fmt::format("products {:.0f} GFLOP/s in fp32, {:.0f} in bf16; copies {:.1f} GB/s",
                     x.f32 / 1e9,
                     x.bf16 / 1e9,
                     x.copy / 1e9);
}

std::string library_text() {
  std::string out;
  for (const auto& [name, version] : libraries())
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, version);
  return out;
}

std::string page(const machine_facts& x, const std::vector<finding>& all) {
  std::string out;
  const auto line = [&](const char* about, const std::string& text) {
    out += fmt::format("{:<12}{}\n", about, wrapped(text, 12));
  };
  line("program", runtime::version_text());
  line("libraries", library_text());
  line("processor", processor_text(x.processor));
  line("", fmt::format("instructions: {}", fmt::join(x.processor.instructions, " ")));
  line("", "arithmetic by " + x.processor.arithmetic);
  line("clock", x.processor.clock.empty() ? "unknown" : x.processor.clock);
  line("memory", memory_text(x.memory));
  line("disk",
       fmt::format("{} of {} left in '{}'",
                   runtime::human_bytes(x.disk.available),
                   runtime::human_bytes(x.disk.total),
                   x.disk.existing.string()));
  line("limits",
       fmt::format(
           "open files {}, locked memory {}, stack {}; /dev/shm {}",
           or_unlimited(x.limits.open_files, false),
           or_unlimited(x.limits.locked_memory, true),
           or_unlimited(x.limits.stack, true),
           x.limits.shared_memory ? runtime::human_bytes(*x.limits.shared_memory) : "absent"));
  for (const auto& [about, text] : gpu_lines(x))
    line(about.c_str(), text);
  line("transports", transport_text(x.transports));
  if (x.rates)
    line("rates", rate_text(*x.rates));
  out += "\n";
  for (const auto& f : all) {
    const auto text = f.about + ": " + f.text + ".";
    line(f.severity == weight::missing ? "MISSING" : "note", text);
    if (!f.remedy.empty())
      line("", "fix: " + f.remedy);
  }
  return out
         + (can_train(all) ? "\nThis machine can train.\n" : "\nThis machine cannot train yet.\n");
}

template <class T>
ordered_json or_null(const std::optional<T>& x) {
  return x ? ordered_json(*x) : ordered_json();
}

ordered_json machine_json(const machine_facts& x) {
  return {{"processor",
           {{"name", x.processor.name},
            {"online", x.processor.online},
            {"allowed", x.processor.allowed},
            {"quota", or_null(x.processor.quota)},
            {"usable", x.processor.usable()},
            {"instructions", x.processor.instructions},
            {"arithmetic", x.processor.arithmetic},
            {"clock", x.processor.clock}}},
          {"memory",
           {{"total", x.memory.total},
            {"available", x.memory.available},
            {"limit", or_null(x.memory.limit)},
            {"usable", x.memory.usable()}}},
          {"disk",
           {{"folder", x.disk.folder.string()},
            {"existing", x.disk.existing.string()},
            {"total", x.disk.total},
            {"available", x.disk.available},
            {"obstacle", x.disk.obstacle}}},
          {"limits",
           {{"open_files", or_null(x.limits.open_files)},
            {"locked_memory", or_null(x.limits.locked_memory)},
            {"stack", or_null(x.limits.stack)},
            {"shared_memory", or_null(x.limits.shared_memory)}}},
          {"gpu", gpu_json(x)},
          {"transports",
           {{"ucx", x.transports.ucx},
            {"ucx_info", x.transports.tool},
            {"listed", x.transports.transports}}}};
}

ordered_json as_json(const machine_facts& x, const std::vector<finding>& all) {
  auto out = machine_json(x);
  out["program"] = runtime::version_text();
  for (const auto& [name, version] : libraries())
    out["libraries"][name] = version;
  if (x.rates)
    out["rates"] = {{"f32", x.rates->f32}, {"bf16", x.rates->bf16}, {"copy", x.rates->copy}};
  out["findings"] = ordered_json::array();
  for (const auto& f : all)
    out["findings"].push_back({{"missing", f.severity == weight::missing},
                               {"about", f.about},
                               {"text", f.text},
                               {"remedy", f.remedy}});
  out["can_train"] = can_train(all);
  return out;
}

int examine(const doctor_flags& flags) {
  constexpr int something_missing = 2;
  const auto facts = look(flags);
  const auto all = findings_of(facts);
  if (flags.json)
    print_json(runtime::json_text_replacing(as_json(facts, all), 1));
  else
    print_page(page(facts, all));
  return can_train(all) ? 0 : something_missing;
}

}  // namespace

void add_doctor(command_line& program) {
  auto& line = program.command(
      "doctor", "checks this machine and says what is missing to train on it, and how to fix it.");
  const auto flags = std::make_shared<doctor_flags>();
  line.value({.name = "--folder",
              .type = "DIR",
              .default_value = "here",
              .help = "Folder for checkpoints; its disk is checked."},
             text(flags->folder));
  line.toggle("--measure",
              "Also measures the speed of matrix products in fp32 and bf16 and of copies, which "
              "takes some seconds.",
              [flags] { flags->measure = true; });
  line.toggle("--json", "Prints JSON, for programs: bytes, and operations per second.", [flags] {
    flags->json = true;
  });
  line.note("Exit code 0: this machine can train. 2: something is missing. Changes nothing.");
  line.runs([flags] { return examine(*flags); });
}

}  // namespace troupe::command
