// Ranks of a group over NCCL, for tests of groups between processes.
//
//   nccl_peer RANK SIZE ACT [ID]   one rank; without ID it is the first, and prints the id
//   nccl_peer all SIZE scenario    all ranks, as threads
//
// ACT: scenario (prints a hash of each result) or repeat (sums until standard input has a line
// "lost P", then loses process P and prints how the sums ended). Rank r uses device r and plays
// process r.

#include "runtime/collective/nccl_group.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/tensor/moves.hpp"
#include "tests/support/numbers.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <iostream>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

using namespace troupe;
using namespace troupe::runtime;

namespace {

constexpr const char* name = "group of a test";
constexpr std::int64_t n = 1000;

void say(const std::string& text) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::puts(text.c_str());
  std::fflush(stdout);
}

tensor numbers(stream& by, int which) {
  return uploaded(by, tests::normal<float>(std::size_t(n), std::uint32_t(which)), {n});
}

std::unique_ptr<nccl_communicator> join(nccl_groups& groups, int rank, int size) {
  std::vector<int> processes(static_cast<std::size_t>(size));
  std::iota(processes.begin(), processes.end(), 0);
  return make_nccl_communicator(groups, {name, axis::data, rank, size, rank, processes});
}

void scenario(nccl_groups& groups, int rank, int size) {
  stream by(kernels::backend::cuda, 1, {}, rank);
  const auto group = join(groups, rank, size);
  const auto tell = [&](const char* what, const tensor& x) {
    const auto values = elements_of<float>(by, x);
    say(fmt::format(
        "{} {} {:016x}", rank, what, hash64(values.data(), values.size() * sizeof(float))));
  };
  std::vector<std::int64_t> cuts(std::size_t(size), 100);  // all but two are empty
  cuts.back() = n;
  for (int round = 0; round < 3; ++round) {
    auto x = numbers(by, 10 * round + rank);
    const void* const part = x.raw();
    auto out = numbers(by, 7);
    group->reduce_scatter_sum(by, dtype::f32, {&part, 1}, out.raw(), cuts);
    tell("reduce_scatter_sum", out);
    group->all_reduce_sum(by, dtype::f32, {&part, 1}, x.raw(), n);
    tell("all_reduce_sum", x);
    group->broadcast(by, out.raw(), 4 * n, 1);
    tell("broadcast", out);
    auto all = numbers(by, rank);
    std::vector<std::int64_t> bytes = cuts;
    std::ranges::transform(bytes, bytes.begin(), [](std::int64_t end) { return 4 * end; });
    const auto begin = rank == 0 ? 0 : cuts[std::size_t(rank - 1)];
    group->all_gather(by, all.data<float>() + begin, all.raw(), bytes);
    tell("all_gather", all);
    group->barrier();
  }
  by.finish();
}

void repeat(nccl_groups& groups, int rank, int size) {
  stream by(kernels::backend::cuda, 1, {}, rank);
  const auto group = join(groups, rank, size);
  std::jthread told;
  try {
    auto x = numbers(by, rank);
    const void* const part = x.raw();
    for (bool first = true;; first = false) {
      group->all_reduce_sum(by, dtype::f32, {&part, 1}, x.raw(), n);
      by.finish();
      group->check();
      if (!first)
        continue;
      say("sums");
      told = std::jthread([&groups] {
        std::string word;
        for (int process = 0; std::cin >> word >> process;)
          groups.lose(process, "killed by signal 9");
      });
    }
  } catch (const peer_lost& loss) {
    say(std::string("peer_lost: ") + loss.what());
  }
}

nccl_id id_from(const std::string& hex) {
  nccl_id out;
  for (std::size_t i = 0; i < out.bytes.size() && 2 * i + 1 < hex.size(); ++i)
    out.bytes[i] = char(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  return out;
}

std::string text_of(const nccl_id& id) {
  std::string out;
  for (const char byte : id.bytes)
    out += fmt::format("{:02x}", unsigned(static_cast<unsigned char>(byte)));
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4)
    return 2;
  const std::string which = argv[1], act = argv[3];
  const int size = std::atoi(argv[2]);
  try {
    nccl_groups groups({}, 1, collective_mode::ordered);
    if (which == "all") {
      std::vector<std::thread> ranks;
      for (int r = 0; r < size; ++r)
        ranks.emplace_back([&, r] { scenario(groups, r, size); });
      for (auto& one : ranks)
        one.join();
      return 0;
    }
    if (argc > 4)
      groups.give(name, id_from(argv[4]));
    else
      say(text_of(groups.id_of(name)));
    (act == "scenario" ? scenario : repeat)(groups, std::stoi(which), size);
    return 0;
  } catch (const std::exception& failure) {
    say(std::string("failed: ") + failure.what());
    return 1;
  }
}
