// Collectives between processes of this machine, compared with its memory and, if mpicc and mpirun
// exist, with Open MPI: docs/benchmarks.
//
//   bench_windows [--smoke] [--wire] [2|4]
//
// The bound by memory: one thread per rank in a single process does the same sums and copies. Both
// are measured in turn, on the same cores. With --wire the processes share no memory.

#include "runtime/collective/offsets.hpp"
#include "runtime/collective/ordered_sum.hpp"
#include "runtime/collective/window/windows.hpp"
#include "runtime/transport/ucx_wire.hpp"
#include "tests/support/places.hpp"

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace troupe;
using namespace troupe::runtime;

namespace {

struct options {
  bool smoke = false, wire = false;
  int repetitions() const { return smoke ? 3 : 100; }
  std::vector<std::int64_t> sizes() const {
    if (smoke)
      return {64 << 10};
    return {64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
  }
  int times(std::int64_t bytes) const {
    return bytes > (4 << 20) ? (repetitions() + 9) / 10 : repetitions();
  }
};

constexpr std::array operations = {"all_reduce", "reduce_scatter", "all_gather"};

double us_of(const auto& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

double middle(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x.empty() ? 0 : x[x.size() / 2];
}

std::vector<std::int64_t> ends_of(std::int64_t n, int ranks, std::int64_t element) {
  auto out = slices(n, ranks);
  for (auto& end : out)
    end *= element;
  return out;
}

memory_block ones(memory_block x, std::int64_t n) {
  std::fill_n(reinterpret_cast<float*>(x.get()), n, 1.0F);
  return x;
}

/// One thread per rank, with all ranks' arrays; the threads only meet at the barriers.
class one_process {
 public:
  one_process(int ranks, std::int64_t bytes)
      : ranks_(ranks), n_(bytes / 4), together_(ranks + 1), inner_(ranks) {
    memory_pool pool;
    for (int r = 0; r < ranks; ++r) {
      from_.push_back(ones(pool.allocate(std::size_t(bytes)), n_));
      to_.push_back(ones(pool.allocate(std::size_t(bytes)), n_));
    }
    for (int r = 0; r < ranks; ++r)
      threads_.emplace_back([this, r] { serve(r); });
  }
  ~one_process() {
    operation_ = -1;
    together_.arrive_and_wait();
  }
  one_process(const one_process&) = delete;
  one_process& operator=(const one_process&) = delete;

  void run(int operation) {
    operation_ = operation;
    together_.arrive_and_wait();
    together_.arrive_and_wait();
  }

 private:
  void serve(int rank) {
    stream stream(kernels::backend::cpu, 1, {});
    for (;;) {
      together_.arrive_and_wait();
      if (operation_ < 0)
        return;
      act(stream, rank);
      together_.arrive_and_wait();
    }
  }
  void act(stream& stream, int rank) {
    const auto ends = slices(n_, ranks_);
    const auto begin = begin_of(ends, rank), count = size_of_cut(ends, rank);
    auto* const to = to_[std::size_t(rank)].get();
    if (operation_ < 2) {
      std::vector<const void*> sources;
      for (const auto& x : from_)
        sources.push_back(x.get() + begin * 4);
      ordered_sum(stream, dtype::f32, to + begin * 4, sources, count);
    }
    if (operation_ == 0)
      inner_.arrive_and_wait();
    for (int i = operation_ == 0 ? 1 : 0; operation_ != 1 && i < ranks_; ++i) {
      const int r = (rank + i) % ranks_;
      const auto& source = operation_ == 0 ? to_[std::size_t(r)] : from_[std::size_t(r)];
      stream.copy(to + begin_of(ends, r) * 4,
                  source.get() + begin_of(ends, r) * 4,
                  std::size_t(size_of_cut(ends, r) * 4));
    }
  }

  int ranks_;
  std::int64_t n_;
  std::vector<memory_block> from_, to_;  ///< one per rank
  std::barrier<> together_, inner_;
  int operation_ = 0;
  std::vector<std::jthread> threads_;
};

/// Runs a rank. Rank 0 prints the microseconds of each operation, and those of one process.
void be_rank(const options& how, windows& by, communicator& group, std::FILE* tell) {
  stream stream(kernels::backend::cpu, 1, {});
  const int size = group.size();
  memory_pool pool;
  for (const auto bytes : how.sizes()) {
    const auto n = bytes / 4;
    const auto ends = slices(n, size), byte_ends = ends_of(n, size, 4);
    const std::array blocks = {ones(by.allocate(std::size_t(bytes)), n),
                               ones(by.allocate(std::size_t(bytes)), n),
                               ones(pool.allocate(std::size_t(bytes)), n),
                               ones(pool.allocate(std::size_t(bytes)), n)};
    std::unique_ptr<one_process> beside;
    if (group.rank() == 0)
      beside = std::make_unique<one_process>(size, bytes);
    for (int op = 0; op < int(operations.size()); ++op)
      for (int i = -3; i < how.times(bytes); ++i) {
        std::array<double, 2> took;
        for (const std::size_t own : {0, 1}) {
          const void* const part = blocks[2 * own].get();
          auto* const to = reinterpret_cast<float*>(blocks[2 * own + 1].get());
          group.barrier();
          took[own] = us_of([&] {
            if (op == 0)
              group.all_reduce_sum(stream, dtype::f32, {&part, 1}, to, n);
            else if (op == 1)
              group.reduce_scatter_sum(stream, dtype::f32, {&part, 1}, to, ends);
            else
              group.all_gather(stream, at(part, begin_of(byte_ends, group.rank())), to, byte_ends);
          });
          if (op == 0 && to[n - 1] != float(size))
            throw std::runtime_error("a sum is wrong");
        }
        group.barrier();
        if (group.rank() != 0)
          continue;
        const auto allowed = us_of([&] { beside->run(op); });
        if (i >= 0)
          fmt::print(tell,
                     "{} {} {:.3f} {:.3f} {:.3f}\n",
                     operations[std::size_t(op)],
                     bytes,
                     took[0],
                     allowed,
                     took[1]);
      }
  }
}

int be_process(const options& how, int rank, int ranks, int socket) {
  std::FILE* const to = ::fdopen(socket, "w");
  std::FILE* const from = ::fdopen(::dup(socket), "r");
  window_settings settings{.process = std::uint64_t(rank + 1), .shared_memory = !how.wire};
  if (how.wire)
    settings.make_wire
        = [](wire_owner& owner) { return make_ucx_wire(owner, settings_without_secret()); };
  windows mine(settings);
  fmt::print(to, "{}\n", mine.address());
  std::fflush(to);
  window_group_description what{.name = "bench", .generation = generation_id{1}};
  std::array<char, 1000> line;
  for (int r = 0; r < ranks; ++r) {
    if (std::fgets(line.data(), int(line.size()), from) == nullptr)
      return 1;
    line[std::strcspn(line.data(), "\n")] = 0;
    what.homes.emplace_back(line.data());
  }
  be_rank(how, mine, *mine.join(what, rank, {}), to);
  fmt::print(to, "over\n");
  std::fflush(to);
  return std::fgets(line.data(), int(line.size()), from)
         == nullptr;  // the other ranks are done, too
}

using figures = std::map<std::pair<std::string, std::int64_t>, std::array<std::vector<double>, 4>>;

void measure(const options& how, int ranks, figures& to) {
  std::vector<std::FILE*> in, out;
  std::vector<pid_t> all;
  for (int r = 0; r < ranks; ++r) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw std::runtime_error("no socket");
    std::fflush(nullptr);
    all.push_back(::fork());
    if (all.back() == 0)
      std::_Exit(be_process(how, r, ranks, ends[1]));
    ::close(ends[1]);
    in.push_back(::fdopen(ends[0], "r"));
    out.push_back(::fdopen(::dup(ends[0]), "w"));
  }
  std::array<char, 1000> line;
  std::string homes;
  const auto read = [&](int r) {
    if (std::fgets(line.data(), int(line.size()), in[std::size_t(r)]) == nullptr)
      throw std::runtime_error("a process of the bench has ended");
    return std::string(line.data());
  };
  for (int r = 0; r < ranks; ++r)
    homes += read(r);
  for (auto* const x : out) {
    fmt::print(x, "{}", homes);
    std::fflush(x);
  }
  for (int r = 0; r < ranks; ++r)
    for (auto text = read(r); text != "over\n"; text = read(r)) {
      std::array<char, 40> name;
      long long bytes = 0;
      double took = 0, allowed = 0, own = 0;
      if (std::sscanf(
              text.c_str(), "%39s %lld %lf %lf %lf", name.data(), &bytes, &took, &allowed, &own)
          != 5)
        throw std::runtime_error("a process of the bench said " + text);
      auto& x = to[{name.data(), bytes}];
      x[0].push_back(took);
      x[1].push_back(allowed);
      x[3].push_back(own);
    }
  for (auto* const x : out) {
    fmt::print(x, "all are over\n");
    std::fflush(x);
  }
  for (int r = 0; r < ranks; ++r) {
    ::waitpid(all[std::size_t(r)], nullptr, 0);
    std::fclose(in[std::size_t(r)]);
    std::fclose(out[std::size_t(r)]);
  }
}

/// Adds figures of Open MPI, if it is installed.
void measure_mpi(const options& how, int ranks, figures& to) {
  const std::string source = tests::source_dir() + "/tests/bench/mpi_collectives.c";
  std::array<char, 40> folder = {"/tmp/troupe_mpi_XXXXXX"};
  if (std::system("command -v mpicc >/dev/null && command -v mpirun >/dev/null") != 0
      || ::mkdtemp(folder.data()) == nullptr)
    return;
  const std::string program = std::string(folder.data()) + "/mpi_collectives";
  if (std::system(fmt::format("mpicc -O2 -o {} {}", program, source).c_str()) == 0) {
    auto command = fmt::format("mpirun --allow-run-as-root --oversubscribe -n {} {} {}",
                               ranks,
                               program,
                               how.repetitions());
    for (const auto bytes : how.sizes())
      command += fmt::format(" {}", bytes);
    std::FILE* const said = ::popen(command.c_str(), "r");
    std::array<char, 40> name;
    long long bytes = 0;
    double took = 0;
    while (said != nullptr && std::fscanf(said, "%39s %lld %lf", name.data(), &bytes, &took) == 3)
      to[{name.data(), bytes}][2].push_back(took);
    if (said != nullptr)
      ::pclose(said);
    std::remove(program.c_str());
  }
  ::rmdir(folder.data());
}

void show(const options& how, int ranks, const figures& of) {
  fmt::print(
      "\n{} processes:\n\n| | bytes | windows, us | memory allows, us | allowed over taken | "
      "ordinary memory, us | allowed over that | Open MPI, us | Open MPI over windows "
      "|\n|---|---|---|---|---|---|---|---|---|\n",
      ranks);
  for (const auto* const op : operations)
    for (const auto bytes : how.sizes()) {
      const auto& x = of.at({op, bytes});
      std::vector<double> ratios, of_own;
      for (std::size_t i = 0; i < x[0].size(); ++i) {
        ratios.push_back(x[1][i] / x[0][i]);
        of_own.push_back(x[1][i] / x[3][i]);
      }
      const auto took = middle(x[0]), mpi = middle(x[2]);
      fmt::print("| {} | {} | {:.0f} | {:.0f} | {:.2f} | {:.0f} | {:.2f} | {} | {} |\n",
                 op,
                 bytes,
                 took,
                 middle(x[1]),
                 middle(ratios),
                 middle(x[3]),
                 middle(of_own),
                 x[2].empty() ? "" : fmt::format("{:.0f}", mpi),
                 x[2].empty() ? "" : fmt::format("{:.2f}", mpi / took));
    }
}

}  // namespace

int main(int argc, char** argv) {
  options how;
  for (int i = 1; i < argc; ++i) {
    how.smoke = how.smoke || std::string(argv[i]) == "--smoke";
    how.wire = how.wire || std::string(argv[i]) == "--wire";
  }
  for (const int ranks : {2, 4}) {
    if (argc > 1 && std::atoi(argv[argc - 1]) > 0 && std::atoi(argv[argc - 1]) != ranks)
      continue;
    figures all;
    for (int turn = 0; turn < (how.smoke ? 1 : 2); ++turn) {
      measure(how, ranks, all);
      measure_mpi(how, ranks, all);
    }
    show(how, ranks, all);
  }
}
