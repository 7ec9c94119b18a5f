#include "runtime/core/error.hpp"
#include "runtime/schedule/behaviour.hpp"

#include <fmt/ranges.h>

namespace troupe::runtime {

stage_book::stage_book(const plan& frame, int rank) : training_(frame.training) {
  ensure(frame.copies == 1, "BEHAVIOUR-1: a behaviour decides for one copy of the model");
  view_.rank = rank;
  view_.ranks = int(frame.ranks.size());
  view_.chunks = frame.chunks;
  view_.microbatches = frame.microbatches;
  const auto here = [&](int c) {
    return c >= 0 && c < frame.chunks && frame.placement[std::size_t(c)] == rank;
  };
  for (int c = 0; c < frame.chunks; ++c) {
    if (!here(c))
      continue;
    auto& one = chunks_.emplace_back();
    one.id = chunk_id(c);
    one.first = c == 0;
    one.last = c == frame.chunks - 1;
    one.after_own = here(c - 1);
    one.before_own = here(c + 1);
    one.activations.resize(std::size_t(frame.microbatches));
    one.gradients.resize(std::size_t(frame.microbatches));
    view_.hosted.push_back(one.id);
  }
  view_.finished.resize(chunks_.size());
}

stage_book::hosted& stage_book::at(chunk_id c) {
  for (auto& one : chunks_)
    if (one.id == c)
      return one;
  throw broken_promise("a stage tracks the chunks that it hosts");
}

void stage_book::arrive_activation(chunk_id c, microbatch_id m) {
  at(c).activations.at(value(m)) = 1;
}

void stage_book::arrive_gradient(chunk_id c, microbatch_id m) {
  at(c).gradients.at(value(m)) = 1;
}

void stage_book::bound(const handoff_credits& all) {
  for (auto& one : chunks_) {
    if (!one.last && !one.before_own)
      one.room[0] = all.activations.at(value(one.id));
    if (!one.first && !one.after_own)
      one.room[1] = all.gradients.at(value(one.id));
  }
}

void stage_book::lend(chunk_id maker, bool gradient, int count) {
  if (auto& room = at(maker).room[gradient])
    *room -= count;
}

std::string stage_book::missing(const hosted& of, const action& x) const {
  const auto m = int(value(x.microbatch));
  const auto& done = of.done;
  const auto in_turn = [&](int next) -> std::string {
    if (m < next)
      return "it was chosen before";
    auto first = x;
    first.microbatch = microbatch_id(next);
    return m > next ? fmt::format("micro-batches ascend, {} is next", to_string(first)) : "";
  };
  const auto after = [&](action_kind kind, int so_far) {
    return m < so_far ? std::string()
                      : fmt::format("{} comes first", to_string({kind, x.chunk, x.microbatch}));
  };
  const auto has_no_room
      = [&](bool gradient) { return of.room[gradient] && *of.room[gradient] <= 0; };
  constexpr const char* no_room = "the next rank has not taken enough earlier results";
  switch (x.kind) {
    case action_kind::forward:
      if (auto why = in_turn(done.forward); !why.empty())
        return why;
      if (has_no_room(false))
        return no_room;
      return of.first || of.activations[value(x.microbatch)] ? "" : "its input has not arrived";
    case action_kind::input_gradients:
      if (auto why = in_turn(done.input_gradients); !why.empty())
        return why;
      if (auto why = after(action_kind::forward, done.forward); !why.empty())
        return why;
      if (has_no_room(true))
        return no_room;
      return of.last || of.gradients[value(x.microbatch)] ? "" : "its gradient has not arrived";
    case action_kind::weight_gradients:
      if (auto why = in_turn(done.weight_gradients); !why.empty())
        return why;
      return after(action_kind::input_gradients, done.input_gradients);
    default:
      return "a behaviour chooses F, I and W only";
  }
}

const stage_view& stage_book::view() {
  view_.ready.clear();
  view_.held = 0;
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    const auto& one = chunks_[i];
    const auto offer = [&](action_kind kind, int next) {
      const action x{kind, one.id, microbatch_id(next)};
      if (next < view_.microbatches && missing(one, x).empty())
        view_.ready.push_back(x);
    };
    offer(action_kind::forward, one.done.forward);
    if (training_) {
      offer(action_kind::input_gradients, one.done.input_gradients);
      offer(action_kind::weight_gradients, one.done.weight_gradients);
      view_.held += one.done.forward - one.done.input_gradients;
    }
    view_.finished[i] = one.done;
  }
  return view_;
}

std::string stage_book::objection(const action& x) const {
  for (const auto& one : chunks_)
    if (one.id == x.chunk) {
      if (int(value(x.microbatch)) >= view_.microbatches)
        return fmt::format("the step has {} micro-batches", view_.microbatches);
      if (x.block != 0 || value(x.copy) != 0 || x.with_next)
        return "a behaviour chooses whole chunks of one copy, one action at a time";
      if (!training_ && x.kind != action_kind::forward)
        return "this is not a training step";
      return missing(one, x);
    }
  return fmt::format("stage {} is not on this rank", value(x.chunk));
}

void stage_book::choose(const action& x, const std::string& by) {
  if (const auto why = objection(x); !why.empty()) {
    std::vector<std::string> ready;
    for (const auto& one : view().ready)
      ready.push_back(to_string(one));
    throw input_error("{}: rank {} of {} chose {}, which cannot run now: {}; ready: {}",
                      by,
                      view_.rank,
                      view_.ranks,
                      to_string(x),
                      why,
                      ready.empty() ? "nothing" : fmt::format("{}", fmt::join(ready, " ")));
  }
  auto& one = at(x.chunk);
  if (x.kind == action_kind::forward) {
    ++one.done.forward;
    lend(x.chunk, false);
    if (one.before_own)
      arrive_activation(next(x.chunk), x.microbatch);
  } else if (x.kind == action_kind::input_gradients) {
    ++one.done.input_gradients;
    lend(x.chunk, true);
    if (one.after_own)
      arrive_gradient(chunk_id(value(x.chunk) - 1), x.microbatch);
  } else {
    ++one.done.weight_gradients;
  }
}

bool stage_book::is_complete() const {
  const auto all = view_.microbatches;
  for (const auto& one : chunks_)
    if (one.done.forward < all || (training_ && one.done.weight_gradients < all))
      return false;
  return true;
}

std::vector<action> stage_book::awaited() const {
  std::vector<action> out;
  for (const auto& one : chunks_) {
    const auto first_missing = [](const std::vector<char>& arrived, int from, int to) {
      while (from < to && arrived[std::size_t(from)])
        ++from;
      return from;
    };
    const auto& done = one.done;
    if (!one.first && !one.after_own)
      if (const int m = first_missing(one.activations, done.forward, view_.microbatches);
          m < view_.microbatches)
        out.push_back({action_kind::forward, chunk_id(value(one.id) - 1), microbatch_id(m)});
    if (training_ && !one.last && !one.before_own)
      if (const int m = first_missing(one.gradients, done.input_gradients, done.forward);
          m < done.forward)
        out.push_back({action_kind::input_gradients, next(one.id), microbatch_id(m)});
  }
  return out;
}

}  // namespace troupe::runtime
