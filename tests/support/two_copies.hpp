// Two copies of a model with passes through the stages in opposite directions, as in a DualPipe
// schedule, without actors.

#pragma once

#include "runtime/collective/local/local_group.hpp"
#include "runtime/trainer/worker.hpp"
#include "tests/support/tiny_gpt.hpp"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::tests {

/// Two stages; each hosts one chunk of each copy.
struct two_copies {
  two_copies(const runtime::worker_settings& of,
             std::vector<std::shared_ptr<runtime::rank_estate>> from = {})
      : settings(of), estates(std::move(from)) {
    const bool begins = estates.empty();
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      auto mine = settings;
      runtime::worker_groups all;
      for (const std::uint32_t chunk : {0U, 1U}) {  // all ranks reduce in this order
        const std::uint32_t copy = rank ^ chunk;
        mine.chunks.push_back({runtime::chunk_id(chunk), stage[chunk], runtime::copy_id(copy)});
        groups.push_back(std::make_unique<runtime::local_communicator>(group[chunk], int(copy)));
        all.of_chunk[runtime::chunk_id(chunk)][runtime::axis::data] = groups.back().get();
      }
      if (mine.estate != nullptr && begins)
        estates.push_back(std::make_shared<runtime::rank_estate>());
      if (mine.estate != nullptr)
        mine.estate = estates[rank];
      by.push_back(std::make_unique<runtime::worker>(mine, streams[rank], all));
      if (mine.estate != nullptr && begins)
        by.back()->seal(0, by.back()->digests());
    }
    if (!begins)
      each([](runtime::worker& x) { x.bring_values(); });
  }

  void each(const std::function<void(runtime::worker&)>& visit) {
    std::thread other([&] { visit(*by[1]); });
    visit(*by[0]);
    other.join();
  }

  std::map<std::string, runtime::digest> step(std::uint64_t number) {
    for (const auto& x : by)
      x->begin_step({.step = runtime::step_id(number), .logical_replicas = 2});
    for (std::uint32_t copy = 0; copy < 2; ++copy) {
      auto &first = *by[copy], &last = *by[1 - copy];
      const auto in = tiny_batch(streams[copy], settings.model, 2, 10 * number + copy, true);
      auto x = first.forward({0, runtime::chunk_id(0), {}}, in);
      for (const auto* const name : {"labels", "mask"})
        x.add(name, in.at(name));
      last.forward({0, runtime::chunk_id(1), {}}, x);
      first.backward({0, runtime::chunk_id(0), {}},
                     last.backward({0, runtime::chunk_id(1), {}}, {}));
    }
    each([&](runtime::worker& x) {
      x.reduce();
      x.update({.step = number, .learning_rate = 0.01});
      x.gather();
      if (x.estate() != nullptr)
        x.seal(number, x.digests());
    });
    std::map<std::string, runtime::digest> out;
    for (const auto& x : by)
      for (const auto& [name, part] : x->digests().own)
        out[name] += part;
    return out;
  }

  runtime::worker_settings settings;
  std::vector<std::shared_ptr<runtime::rank_estate>> estates;
  const std::array<runtime::chunk_range, 2> stage{{{0, 2}, {2, 4}}};
  std::array<runtime::stream, 2> streams{runtime::stream(kernels::backend::cpu, 1, {}),
                                         runtime::stream(kernels::backend::cpu, 1, {})};
  std::array<std::shared_ptr<runtime::local_group>, 2> group{
      std::make_shared<runtime::local_group>(runtime::axis::data, 2, runtime::cancel_token()),
      std::make_shared<runtime::local_group>(runtime::axis::data, 2, runtime::cancel_token())};
  std::vector<std::unique_ptr<runtime::communicator>> groups;
  std::vector<std::unique_ptr<runtime::worker>> by;
};

}  // namespace troupe::tests
