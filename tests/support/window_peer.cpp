// One process of a group, for tests of windows.
//
//   window_peer FOLDER PROCESS PROCESSES RANKS KIND ACT
//
// ACT: scenario (prints the result of each call on each rank) or repeat (sums until FOLDER has a
// file lost.P or end, then prints how the sums ended). KIND: shared, wire, refused (the kernel
// forbids reading the memory of other processes) or mixed (odd processes share no memory).
// Processes find each other through files in FOLDER.

#include "runtime/collective/window/windows.hpp"
#include "runtime/core/error.hpp"
#include "runtime/transport/ucx_wire.hpp"
#include "tests/support/refused_memory.hpp"
#include "tests/support/soon.hpp"
#include "tests/support/window_scenario.hpp"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

using namespace troupe::runtime;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

void say(const std::string& text) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void write_file(const fs::path& where, const std::string& text) {
  const fs::path part = where.string() + ".part";
  std::ofstream(part) << text << "\n";
  fs::rename(part, where);
}

std::string read_file(const fs::path& where) {
  std::string out;
  if (!soon([&] { return fs::exists(where); }))
    std::exit(3);
  std::ifstream file(where);
  std::getline(file, out);
  return out;
}

std::size_t open_files() {
  return std::size_t(std::distance(fs::directory_iterator("/proc/self/fd"), {}));
}

/// Reports shared memory with a name, which would outlive a killed process. Ignores the OpenMP
/// runtime's own.
void say_named_memory() {
  std::ifstream maps("/proc/self/maps");
  int boards = 0;
  for (std::string line; std::getline(maps, line);) {
    const auto path = line.find('/');
    if (path == std::string::npos || line.find('s', line.find(' ')) != line.find(' ') + 4)
      continue;
    if (line.compare(path, 22, "/memfd:troupe windows ") == 0)
      ++boards;
    else if (line.find("__KMP_") == std::string::npos)
      say("shared under a name: " + line);
  }
  if (boards == 0)
    say("no memory is shared");
}

void repeat(communicator& group, stream& stream) {
  const std::int64_t n = 1 << 18;
  std::vector<float> mine(n, float(group.rank())), to(n);
  const void* const part = mine.data();
  for (bool first = true;; first = false) {
    group.all_reduce_sum(stream, dtype::f32, {&part, 1}, to.data(), n);
    if (first)
      say("started");
  }
}

void be_rank(windows& by,
             const window_group_description& what,
             int rank,
             const std::string& act,
             const cancel_token& until) {
  try {
    const auto group = by.join(what, rank, until);
    stream stream(troupe::kernels::backend::cpu, 1, {});
    if (act == "repeat")
      repeat(*group, stream);
    int i = 0;
    for (const auto& line : window_scenario(*group, stream))
      say(fmt::format("rank {} call {}: {}", rank, i++, line));
  } catch (const std::exception& failure) {
    say(fmt::format("rank {} ended: {}", rank, failure.what()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr, "window_peer: FOLDER PROCESS PROCESSES RANKS KIND scenario|repeat\n");
    return 2;
  }
  const fs::path folder = argv[1];
  const int process = std::atoi(argv[2]), processes = std::atoi(argv[3]);
  const int ranks = std::atoi(argv[4]);
  const std::string kind = argv[5], act = argv[6];
  if (kind == "refused")
    refuse_memory_of_others();
  const auto files = open_files();
  {
    window_settings settings{.process = std::uint64_t(process + 1)};
    settings.shared_memory = kind != "wire" && !(kind == "mixed" && process % 2 == 1);
    if (kind != "shared")
      settings.make_wire
          = [](wire_owner& owner) { return make_ucx_wire(owner, settings_without_secret()); };
    windows by(settings);
    write_file(folder / fmt::format("address.{}", process), by.address());
    window_group_description what{
        .name = "test", .along = axis::data, .generation = generation_id{1}};
    for (int p = 0; p < processes; ++p) {
      const auto address = read_file(folder / fmt::format("address.{}", p));
      for (int r = 0; r < ranks; ++r)
        what.homes.push_back(address);
    }
    const cancel_token token;
    std::vector<std::jthread> threads;
    for (int r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] { be_rank(by, what, process * ranks + r, act, token); });
    if (act == "repeat") {
      const bool told = soon([&] {
        for (int p = 0; p < processes; ++p)
          if (fs::exists(folder / fmt::format("lost.{}", p))) {
            by.release(std::uint64_t(p + 1), "killed by signal 9");
            return true;
          }
        if (fs::exists(folder / "end"))
          token.cancel();
        return token.is_cancelled();
      });
      if (!told)
        return 5;
    }
    for (auto& t : threads)
      t.join();
    threads.clear();
    if (kind == "shared")
      say_named_memory();
    write_file(folder / fmt::format("done.{}", process), "");
    // Waits for all processes: a wire that ends earlier looks to the others like a lost process.
    const bool all_end = act == "scenario" || token.is_cancelled();
    for (int p = 0; p < processes && all_end; ++p)
      read_file(folder / fmt::format("done.{}", p));
    // Skips the destructors: UCX aborts when both ends close a connection at once
    // (openucx/ucx#11455).
    if (kind != "shared") {
      say("over");
      std::_Exit(0);
    }
  }
  if (kind == "shared" && open_files() != files)
    say("files are still open");
  say("over");
  return 0;
}
