#include "runtime/parameters/watched_gradients.hpp"

#include "runtime/core/error.hpp"
#include "runtime/tensor/moves.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

/// Includes the parameter's index, so that digests of several parameters add up.
digest digest_of_gradient(const stream& by, int entry, const float* x, std::int64_t n) {
  digester out;
  out.add(&entry, sizeof entry);
  add_bytes(out, by, by.pool().kind(), x, std::size_t(n) * sizeof(float));
  return out.result();
}

}  // namespace

witnessed_gradients::witnessed_gradients(parameter_store& of, stream& by)
    : gradient_view(of), by_(by), come_(of.entries().size()) {
  for (const auto& e : of.entries()) {
    room_.resize(std::max(room_.size(), std::size_t(e.unit) + 1));
    room_[std::size_t(e.unit)] += e.spec.frozen ? 0 : e.size();
  }
  begin_step();
}

void witnessed_gradients::begin_step() {
  last_.assign(std::size_t(of_.replicas()), std::vector<last_pass>(of_.entries().size()));
  open_.clear();
  flips_ = false;
  end();
}

void witnessed_gradients::begin(int replica, std::uint32_t microbatch, added_gradients* to) {
  replica_ = replica;
  microbatch_ = microbatch;
  to_ = to;
}

void witnessed_gradients::end() {
  take_down(-1);
  std::fill(come_.begin(), come_.end(), char(0));
  to_ = nullptr;
  copied_unit_ = -1;
}

// Looks like a pass that is not replayed, so the next recorded pass copies the gradient.
void witnessed_gradients::note_written(int replica, int entry) {
  last_[std::size_t(replica)][std::size_t(entry)] = {0, false};
}

// Called before the first operation that adds to the gradient.
void witnessed_gradients::come_to(int entry) {
  if (std::exchange(come_[std::size_t(entry)], char(1)))
    return;
  auto& last = last_[std::size_t(replica_)][std::size_t(entry)];
  const auto before = std::exchange(last, {microbatch_, to_ != nullptr});
  if (to_ == nullptr)
    return;
  open_.push_back(entry);
  const bool follows
      = before.witnessed
        && (before.microbatch == microbatch_ || before.microbatch + 1 == microbatch_);
  to_->before.push_back(before.microbatch < 0 ? gradient_before::zero
                        : follows             ? gradient_before::known
                                              : gradient_before::given);
  if (to_->before.back() != gradient_before::given)
    return;
  const auto& e = of_.entries()[std::size_t(entry)];
  // Allocates for the whole unit: the gradients that a pass will access are not known in advance.
  if (std::exchange(copied_unit_, e.unit) != e.unit) {
    const auto bytes = std::size_t(room_[std::size_t(e.unit)]) * sizeof(float);
    to_->given.emplace_back(by_.allocate(bytes), dtype::f32, shape{0});
  }
  auto& all = to_->given.back();
  const auto filled = all.size();
  all = {all.block(), dtype::f32, {filled + e.size()}};
  if (!by_.pool().is_shadow())
    by_.copy(all.data<float>() + filled,
             of_.gradients(replica_, entry),
             std::size_t(e.size()) * sizeof(float));
}

void witnessed_gradients::take_down(int unit) {
  std::erase_if(open_, [&](int entry) {
    const auto& e = of_.entries()[std::size_t(entry)];
    if (unit >= 0 && e.unit != unit)
      return false;
    if (by_.pool().is_shadow())
      return true;
    float* const x = of_.gradients(replica_, entry);
    if (std::exchange(flips_, false))
      flip_bit(by_, x);
    to_->after += digest_of_gradient(by_, entry, x, e.size());
    return true;
  });
}

float* witnessed_gradients::gradient(int unit, int index) {
  come_to(entry_of(unit, index));
  return of_.gradient(unit, index);
}

bool witnessed_gradients::take_first_gradient(int unit, int index) {
  come_to(entry_of(unit, index));
  return of_.take_first_gradient(unit, index);
}

// Records first, because listeners of `emit` may reduce the gradients in place.
void witnessed_gradients::emit(int unit) {
  take_down(unit);
  of_.emit(unit);
}

replayed_gradients::replayed_gradients(parameter_store& of, stream& by)
    : gradient_view(of), by_(by), come_(of.entries().size()), stale_(of.entries().size()) {
  std::int64_t size = 0;
  for (const auto& e : of.entries()) {
    offsets_.push_back(size);
    size += e.gradient_room();
  }
  all_ = tensor::empty<float>(by, {size});
}

void replayed_gradients::begin(added_gradients from) {
  from_ = std::move(from);
  next_ = next_given_ = 0;
  given_unit_ = -1;
  after_ = {};
  open_.clear();
  std::fill(come_.begin(), come_.end(), char(0));
  continues_ = std::find(from_.before.begin(), from_.before.end(), gradient_before::known)
               != from_.before.end();
}

void replayed_gradients::come_to(int entry) {
  if (std::exchange(come_[std::size_t(entry)], char(1)))
    return;
  open_.push_back(entry);
  const auto& e = of_.entries()[std::size_t(entry)];
  ensure(next_ < from_.before.size(),
         "REPLAY-1: a replayed pass adds to the same gradients as the original");
  const auto before = from_.before[next_++];
  stale_[std::size_t(entry)] = before == gradient_before::zero ? 1 : 0;
  if (before != gradient_before::given)
    return;
  if (std::exchange(given_unit_, e.unit) != e.unit) {
    ++next_given_;
    given_at_ = 0;
  }
  ensure(next_given_ <= from_.given.size()
             && given_at_ + e.size() <= from_.given[next_given_ - 1].size(),
         "REPLAY-1: a replayed pass adds to the same gradients as the original");
  if (!by_.pool().is_shadow())
    by_.copy(at(entry),
             from_.given[next_given_ - 1].data<float>() + given_at_,
             std::size_t(e.size()) * sizeof(float));
  given_at_ += e.size();
}

void replayed_gradients::clear_if_stale(int entry) {
  if (std::exchange(stale_[std::size_t(entry)], char(0)))
    by_.clear(at(entry), std::size_t(of_.entries()[std::size_t(entry)].size()) * sizeof(float));
}

float* replayed_gradients::gradient(int unit, int index) {
  const int entry = entry_of(unit, index);
  come_to(entry);
  clear_if_stale(entry);
  return at(entry);
}

bool replayed_gradients::take_first_gradient(int unit, int index) {
  const int entry = entry_of(unit, index);
  come_to(entry);
  return of_.writes_first_gradient() && std::exchange(stale_[std::size_t(entry)], char(0)) != 0;
}

void replayed_gradients::take_down(int unit) {
  std::erase_if(open_, [&](int entry) {
    const auto& e = of_.entries()[std::size_t(entry)];
    if (unit >= 0 && e.unit != unit)
      return false;
    if (!by_.pool().is_shadow())
      after_ += digest_of_gradient(by_, entry, at(entry), e.size());
    return true;
  });
}

// Not forwarded to the store.
void replayed_gradients::emit(int unit) {
  take_down(unit);
}

void replayed_gradients::end_work() {
  take_down(-1);
  std::fill(come_.begin(), come_.end(), char(0));
  given_unit_ = -1;
}

digest replayed_gradients::end() {
  ensure(next_ == from_.before.size(),
         "REPLAY-1: a replayed pass adds to the same gradients as the original");
  from_ = {};
  return after_;
}

}  // namespace troupe::runtime
