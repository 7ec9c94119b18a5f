// Resumes jobs from checkpoints and reads their logs and states.

#pragma once

#include "runtime/checkpoint/checkpoint.hpp"
#include "tests/support/tiny_job.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace troupe::tests {

/// The step records of a log, by iteration.
inline std::map<int, nlohmann::json> steps_in(const std::filesystem::path& log) {
  std::map<int, nlohmann::json> out;
  std::ifstream in(log);
  for (std::string line; std::getline(in, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record.contains("state_digest"))
      out[record["iteration"]] = record;
  }
  return out;
}

inline std::map<int, std::string> digests_in(const std::filesystem::path& log) {
  std::map<int, std::string> out;
  for (const auto& [iteration, record] : steps_in(log))
    out[iteration] = record["state_digest"];
  return out;
}

/// Gathers the parameters and moments of all workers of a job.
class gathered_state {
 public:
  /// Called from any thread.
  void add(runtime::worker& by) {
    const std::lock_guard lock(mutex_);
    for (const auto& x : by.parameters())
      add(x);
    for (const auto& x : by.moments())
      add(x);
  }

  /// True if each element was added, with equal values from all workers that hold it.
  bool is_whole() const {
    bool out = alike_ && !arrays_.empty();
    for (const auto& [name, x] : arrays_)
      for (const auto known : x.known)
        out = out && known != 0;
    return out;
  }

  /// Names the first array that differs from the checkpoint or is missing on one side; empty if all
  /// are equal.
  std::string difference_to(const runtime::checkpoint_reader& other) const {
    for (const auto name : other.names())
      if (arrays_.find(std::string(name)) == arrays_.end())
        return std::string(name) + " is only in the checkpoint";
    for (const auto& [name, x] : arrays_) {
      if (!other.has(name))
        return name + " is not in the checkpoint";
      std::vector<float> there(x.values.size());
      other.read(name, there);
      if (std::memcmp(there.data(), x.values.data(), there.size() * sizeof(float)) != 0)
        return name + " differs";
    }
    return {};
  }

 private:
  struct array {
    std::vector<float> values, known;
  };

  void add(const runtime::state_shard& x) {
    const auto all = runtime::whole(x.whole);
    const auto size = std::size_t(x.whole.size());
    auto& to = arrays_[x.name];
    to.values.resize(size);
    to.known.resize(size);
    array fresh{std::vector<float>(size), std::vector<float>(size)};
    const std::vector<float> ones(x.elements.size(), 1.0F);
    copy_common(x.part, x.elements.data(), all, fresh.values.data(), sizeof(float));
    copy_common(x.part, ones.data(), all, fresh.known.data(), sizeof(float));
    for (std::size_t i = 0; i < size; ++i) {
      if (fresh.known[i] == 0)
        continue;
      alike_ = alike_
               && (to.known[i] == 0
                   || std::memcmp(&to.values[i], &fresh.values[i], sizeof(float)) == 0);
      to.values[i] = fresh.values[i];
      to.known[i] = 1;
    }
  }

  std::mutex mutex_;
  std::map<std::string, array> arrays_;
  bool alike_ = true;
};

/// Prepares a job to resume from a checkpoint. Adds the loaded state of each worker to `look`, if
/// given.
inline std::shared_ptr<actors::prepared_job> going_on(const runtime::training_job& job,
                                                      const std::filesystem::path& checkpoint,
                                                      gathered_state* look = nullptr) {
  const auto from = std::make_shared<const runtime::checkpoint_reader>(checkpoint);
  auto out = tiny_prepared(job);
  out->description.iteration = std::uint64_t(from->manifest().iteration);
  out->description.consumed = std::uint64_t(from->manifest().consumed_samples);
  out->description.skipped = from->manifest().skipped;
  out->description.scale = from->manifest().scale;
  out->node->restore = [from, look](runtime::worker& by) {
    by.restore([&](const runtime::state_shard& to) { from->read(to.name, to.part, to.elements); },
               true);
    if (look != nullptr)
      look->add(by);
  };
  return out;
}

}  // namespace troupe::tests
