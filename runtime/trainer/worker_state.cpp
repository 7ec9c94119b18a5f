// The state of a worker as named shards, for checkpoints.

#include "kernels/op/cast.hpp"
#include "runtime/trainer/worker.hpp"

#include <algorithm>
#include <type_traits>

namespace troupe::runtime {
namespace {

using entry = parameter_entry;

/// Calls visit(box, begin in the range) for each box of the whole tensor that the range covers.
template <class Visit>
void for_each_box(const entry& e, const entry_range& x, const Visit& visit) {
  std::int64_t before = 0;
  for (const auto& part : e.boxes) {
    const auto begin = std::clamp<std::int64_t>(x.begin - before, 0, part.size());
    const auto end = std::clamp<std::int64_t>(x.end - before, 0, part.size());
    auto at = before + begin - x.begin;
    for (const auto& piece : boxes_of_range(part, begin, end)) {
      visit(piece, at);
      at += piece.size();
    }
    before += part.size();
  }
}

}  // namespace

void worker::append(std::vector<state_shard>& to,
                    hosted& home,
                    const optimizer_state::part& x,
                    const std::string& name,
                    std::span<float> all) const {
  const auto& e = home.store->entries()[std::size_t(x.range.entry)];
  const bool another_answers = !e.spec.tied_to.empty() || !answers(e.spec, home.store->axes())
                               || !settings_.saves[e.spec.placements.view()];
  if (another_answers)
    return;
  for_each_box(e, x.range, [&](const box& part, std::int64_t at) {
    to.push_back({name + e.spec.name,
                  whole_extents(e.spec),
                  part,
                  all.subspan(std::size_t(at), std::size_t(part.size()))});
  });
}

std::vector<state_shard> worker::parameters() {
  widened_.clear();
  std::vector<state_shard> out;
  for (auto& [id, home] : homes_)
    for (const auto& x : home->optimizer.parts())
      if (home->answers())
        append(out, *home, x, "", f32_weights(*home, x));
  return out;
}

std::span<float> worker::f32_weights(hosted& home, const optimizer_state::part& x) {
  const auto all = home.optimizer.weights(x);
  const auto type = home.store->type_of(home.store->entries()[std::size_t(x.range.entry)]);
  if (!x.frozen || type == dtype::f32)
    return all;
  auto& out = widened_.emplace_back(tensor::empty<float>(stream_, {x.range.size()}));
  with_element(type, [&]<class T>(T) {
    if constexpr (!std::is_same_v<T, float>)
      stream_.run(kernels::widen<T>{
          out.data<float>(), reinterpret_cast<const T*>(all.data()), x.range.size()});
  });
  return {out.data<float>(), std::size_t(x.range.size())};
}

std::vector<state_shard> worker::moments() {
  std::vector<state_shard> out;
  for (auto& [id, home] : homes_)
    for (const auto& x : home->optimizer.parts()) {
      if (!home->answers())
        break;
      const auto names = state_names(x.rule);
      for (std::size_t i = 0; i < x.at.size(); ++i)
        append(out, *home, x, std::string(names[i]) + ".", home->optimizer.state(x, i));
    }
  return out;
}

void worker::restore(const reader& read, bool with_moments) {
  if (settings_.estate != nullptr)
    settings_.estate->begin_anew();
  for (auto& one : homes_) {
    auto& home = one.second;
    auto& store = *home->store;
    for (int i = 0; i < int(store.entries().size()); ++i) {
      const auto& e = store.entries()[std::size_t(i)];
      if (e.owner >= 0)
        continue;
      std::int64_t at = 0;
      for (const auto& part : e.boxes) {
        std::vector<float> values(std::size_t(part.size()));
        // A copy of another stage's parameter gets the values of its owner.
        read({e.known_as(), whole_extents(e.spec), part, values});
        store.set(e, at, values);
        home->optimizer.set_weights(i, at, values);
        at += part.size();
      }
    }
    if (!with_moments)
      continue;
    for (const auto& x : home->optimizer.parts()) {
      const auto& e = store.entries()[std::size_t(x.range.entry)];
      for_each_box(e, x.range, [&](const box& part, std::int64_t begin) {
        const auto names = state_names(x.rule);
        for (std::size_t i = 0; i < x.at.size(); ++i) {
          std::vector<float> values(std::size_t(part.size()));
          read({std::string(names[i]) + "." + e.known_as(), whole_extents(e.spec), part, values});
          stream_.write(home->optimizer.state(x, i).data() + begin,
                        values.data(),
                        values.size() * sizeof(float));
        }
      });
    }
  }
}

}  // namespace troupe::runtime
