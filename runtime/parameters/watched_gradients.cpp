#include "runtime/parameters/watched_gradients.hpp"

#include "runtime/core/error.hpp"
#include "runtime/tensor/moves.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

/// Includes the gradient's number, so that digests of several gradients add up.
digest digest_of_gradient(const stream& by, int number, const float* x, std::int64_t n) {
  digester out;
  out.add(&number, sizeof number);
  add_bytes(out, by, by.pool().kind(), x, std::size_t(n) * sizeof(float));
  return out.result();
}

}  // namespace

int gradient_view::number_of(int unit, int index, int source) const {
  const auto& e = entry_at(unit, index);
  ensure(source >= 0 && source < sources(e),
         "STORE-11: only parameters that expert ranks share out have a gradient for each source");
  return source * int(entries().size()) + e.index;
}

std::size_t gradient_view::numbers() const {
  return entries().size() * std::size_t(parts() / std::max(1, replicas()));
}

witnessed_gradients::witnessed_gradients(parameter_store& of, stream& by)
    : gradient_view(of), by_(by), come_(numbers()) {
  for (const auto& e : of.entries()) {
    room_.resize(std::max(room_.size(), std::size_t(e.unit) + 1));
    room_[std::size_t(e.unit)] += e.spec.frozen ? 0 : e.size() * sources(e);
  }
  begin_step();
}

void witnessed_gradients::begin_step() {
  last_.assign(std::size_t(of_.replicas()), std::vector<last_pass>(numbers()));
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
void witnessed_gradients::come_to(int number) {
  if (std::exchange(come_[std::size_t(number)], char(1)))
    return;
  auto& last = last_[std::size_t(replica_)][std::size_t(number)];
  const auto before = std::exchange(last, {microbatch_, to_ != nullptr});
  if (to_ == nullptr)
    return;
  open_.push_back(number);
  const bool follows
      = before.witnessed
        && (before.microbatch == microbatch_ || before.microbatch + 1 == microbatch_);
  to_->before.push_back(before.microbatch < 0 ? gradient_before::zero
                        : follows             ? gradient_before::known
                                              : gradient_before::given);
  if (to_->before.back() != gradient_before::given)
    return;
  const auto& e = entry_of(number);
  // Allocates for the whole unit: the gradients that a pass will access are not known in advance.
  if (std::exchange(copied_unit_, e.unit) != e.unit) {
    const auto bytes = std::size_t(room_[std::size_t(e.unit)]) * sizeof(float);
    to_->given.emplace_back(by_.allocate(bytes), dtype::f32, shape{0});
  }
  auto& all = to_->given.back();
  const auto filled = all.size();
  all = {all.block(), dtype::f32, {filled + e.size()}};
  if (!by_.pool().is_shadow())
    by_.copy(all.data<float>() + filled, at(number), std::size_t(e.size()) * sizeof(float));
}

void witnessed_gradients::take_down(int unit) {
  std::erase_if(open_, [&](int number) {
    const auto& e = entry_of(number);
    if (unit >= 0 && e.unit != unit)
      return false;
    if (by_.pool().is_shadow())
      return true;
    float* const x = at(number);
    if (std::exchange(flips_, false))
      flip_bit(by_, x);
    to_->after += digest_of_gradient(by_, number, x, e.size());
    return true;
  });
}

float* witnessed_gradients::gradient(int unit, int index, int source) {
  come_to(number_of(unit, index, source));
  return of_.gradient(unit, index, source);
}

bool witnessed_gradients::take_first_gradient(int unit, int index, int source) {
  come_to(number_of(unit, index, source));
  return of_.take_first_gradient(unit, index, source);
}

// Records first, because listeners of `emit` may reduce the gradients in place.
void witnessed_gradients::emit(int unit) {
  take_down(unit);
  of_.emit(unit);
}

replayed_gradients::replayed_gradients(parameter_store& of, stream& by)
    : gradient_view(of), by_(by), come_(numbers()), stale_(numbers()) {
  std::int64_t size = 0;
  for (int n = 0; n < int(numbers()); ++n) {
    const auto& e = entry_of(n);
    offsets_.push_back(size);
    size += source_of(n) < sources(e) ? e.gradient_room() : 0;
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

void replayed_gradients::come_to(int number) {
  if (std::exchange(come_[std::size_t(number)], char(1)))
    return;
  open_.push_back(number);
  const auto& e = entry_of(number);
  ensure(next_ < from_.before.size(),
         "REPLAY-1: a replayed pass adds to the same gradients as the original");
  const auto before = from_.before[next_++];
  stale_[std::size_t(number)] = before == gradient_before::zero ? 1 : 0;
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
    by_.copy(at(number),
             from_.given[next_given_ - 1].data<float>() + given_at_,
             std::size_t(e.size()) * sizeof(float));
  given_at_ += e.size();
}

void replayed_gradients::clear_if_stale(int number) {
  if (std::exchange(stale_[std::size_t(number)], char(0)))
    by_.clear(at(number), std::size_t(entry_of(number).size()) * sizeof(float));
}

float* replayed_gradients::gradient(int unit, int index, int source) {
  const int number = number_of(unit, index, source);
  come_to(number);
  clear_if_stale(number);
  return at(number);
}

bool replayed_gradients::take_first_gradient(int unit, int index, int source) {
  const int number = number_of(unit, index, source);
  come_to(number);
  return of_.writes_first_gradient() && std::exchange(stale_[std::size_t(number)], char(0)) != 0;
}

void replayed_gradients::take_down(int unit) {
  std::erase_if(open_, [&](int number) {
    const auto& e = entry_of(number);
    if (unit >= 0 && e.unit != unit)
      return false;
    if (!by_.pool().is_shadow())
      after_ += digest_of_gradient(by_, number, at(number), e.size());
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
