#include "actors/checkpointer/collected_shards.hpp"

#include "actors/shard_writer/rank_files.hpp"
#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/core/error.hpp"

#include <algorithm>
#include <utility>

namespace troupe::actors {

collected_shards::collected_shards(const messages::save& order,
                                   std::map<int, messages::snapshot> given,
                                   const runtime::process_map& placed)
    : order_(order) {
  int number = 0;
  for (auto& [rank, x] : given) {
    const int process = placed.process_of(rank);
    parts_.push_back({++number, std::move(x), process, {}});
    answers_[process] = answer::awaited;
  }
}

std::map<int, messages::write_shards> collected_shards::orders() const {
  std::map<int, messages::write_shards> out;
  for (const auto& x : parts_) {
    auto& to = out[x.process];
    to.generation = order_.generation;
    to.step = order_.step;
    to.attempt = order_.attempt;
    to.parts = order_.parts;
    to.ranks.push_back({x.number, x.given.parameters, x.given.moments});
  }
  return out;
}

template <class Answer>
bool collected_shards::is_awaited(const Answer& x) const {
  const auto at = answers_.find(x.process);
  return x.generation == order_.generation && x.step == order_.step && x.attempt == order_.attempt
         && at != answers_.end() && at->second == answer::awaited;
}

bool collected_shards::take(const messages::shards_written& x) {
  if (!is_awaited(x))
    return false;
  for (auto& part : parts_) {
    if (part.process != x.process)
      continue;
    const auto at = std::find_if(
        x.ranks.begin(), x.ranks.end(), [&](const auto& one) { return one.number == part.number; });
    runtime::ensure(at != x.ranks.end(),
                    "SHARDS-2: the acknowledgement of a file covers exactly its requested shards");
    part.written = *at;
  }
  answers_[x.process] = answer::written;
  return true;
}

// The first refusal is reported.
void collected_shards::refuse(int process, const std::string& why) {
  answers_[process] = answer::refused;
  refused_ = true;
  if (why_.empty())
    why_ = why;
}

bool collected_shards::take(const messages::shards_refused& x) {
  if (!is_awaited(x))
    return false;
  refuse(x.process, x.gone ? std::string() : x.why);
  return true;
}

bool collected_shards::lose(int process) {
  const auto at = answers_.find(process);
  if (at == answers_.end() || at->second != answer::awaited)
    return false;
  refuse(process, {});
  lost_ = true;
  return true;
}

int collected_shards::awaited() const {
  return int(std::count_if(
      answers_.begin(), answers_.end(), [](const auto& x) { return x.second == answer::awaited; }));
}

std::vector<runtime::shard_record> collected_shards::records() const {
  runtime::ensure(std::all_of(answers_.begin(),
                              answers_.end(),
                              [](const auto& x) { return x.second == answer::written; }),
                  "SHARDS-1: the manifest is made when all shards are durable");
  std::vector<runtime::shard_record> out;
  for (const auto& x : parts_) {
    const auto file
        = [&](const char* kind) { return runtime::shard_file(kind, x.number, order_.parts); };
    out.push_back(record_of(file("model"), x.written.model, x.given.parameters));
    out.push_back(record_of(file("optimizer"), x.written.optimizer, x.given.moments));
  }
  return out;
}

}  // namespace troupe::actors
