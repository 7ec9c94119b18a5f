// Barriers of a block and warp operations.

#include "tests/emulator/block.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>

namespace troupe::emulator {
namespace {

bool same(const source_location& a, const source_location& b) {
  return a.line == b.line && std::string_view(a.file) == b.file;
}

std::string text_of(const source_location& where) {
  return std::string(where.file) + ":" + std::to_string(where.line);
}

block_runner& running(const char* what) {
  auto* const now = block_runner::current();
  if (now == nullptr) {
    std::fprintf(stderr, "emulated device: the host called %s; only kernels may\n", what);
    std::abort();
  }
  return *now;
}

}  // namespace

int block_barrier(vote what, bool predicate, source_location where) {
  return running("a barrier").barrier(what, predicate, where);
}

std::uint64_t warp_collective(warp_step step,
                              unsigned mask,
                              std::uint64_t bits,
                              int argument,
                              int width,
                              source_location where) {
  return running("a step of a warp")
      .collective({.where = where,
                   .step = step,
                   .mask = mask,
                   .bits = bits,
                   .argument = argument,
                   .width = width});
}

/// Returns the minimum that CUDA allows: the caller's lane alone.
unsigned active_lanes() {
  return running("__activemask").active_lanes();
}

void misaligned(const volatile void* at, std::size_t alignment) {
  char text[96];
  std::snprintf(text,
                sizeof text,
                "the address %p is not a multiple of %zu",
                const_cast<const void*>(at),
                alignment);
  running("a load or store with a hint").fail(cudaErrorMisalignedAddress, text);
}

unsigned block_runner::active_lanes() const {
  return 1U << (running_ % 32);
}

int block_runner::barrier(vote what, bool predicate, source_location where) {
  auto& self = threads_[running_];
  self.what = {.where = where, .what = what, .predicate = predicate};
  self.is = state::at_barrier;
  if (++at_barrier_ == alive_)
    open_barrier();
  wait();
  return int(self.result);
}

void block_runner::open_barrier() {
  const thread* first = nullptr;
  unsigned votes = 0;
  for (const auto& one : threads_) {
    if (one.is != state::at_barrier)
      continue;
    first = first == nullptr ? &one : first;
    votes += one.what.predicate ? 1 : 0;
    if (one.what.what != first->what.what || !same(one.what.where, first->what.where)) {
      failure_ = described(cudaErrorLaunchFailure, who_waits_where());
      return;  // wait() stops the running thread; the others stop when they are resumed
    }
  }
  unsigned result = votes;
  if (first->what.what != vote::count)
    result = first->what.what == vote::any ? votes != 0 : votes == at_barrier_;
  at_barrier_ = 0;
  for (unsigned i = 0; i < threads_.size(); ++i)
    if (threads_[i].is == state::at_barrier)
      make_ready(i, result);
}

std::uint64_t block_runner::collective(const waiting& step) {
  check_mask(step);
  auto& self = threads_[running_];
  self.what = step;
  self.is = state::in_warp;
  const unsigned in = running_ / 32;
  warps_[in].waiting |= 1U << (running_ % 32);
  finish_if_complete(in, step.mask);
  wait();
  return self.result;
}

void block_runner::check_mask(const waiting& step) {
  const auto& in = warps_[running_ / 32];
  if ((step.mask >> (running_ % 32) & 1U) == 0)
    fail(cudaErrorLaunchFailure, "its lane is not in its own mask, at " + text_of(step.where));
  if ((step.mask & ~in.lanes) != 0)
    fail(cudaErrorLaunchFailure,
         "its mask names lanes " + lane_names(step.mask & ~in.lanes)
             + " that its warp does not have, at " + text_of(step.where));
  if (step.width < 1 || step.width > 32 || (step.width & (step.width - 1)) != 0)
    fail(cudaErrorLaunchFailure,
         "the width " + std::to_string(step.width) + " is not a power of two up to 32, at "
             + text_of(step.where));
}

/// Finishes the operation if all lanes of the mask that have not ended have arrived.
void block_runner::finish_if_complete(unsigned in, unsigned mask) {
  const unsigned lanes = mask & ~warps_[in].ended;
  if (failure_ || (warps_[in].waiting & lanes) != lanes || lanes == 0)
    return;
  const auto& first = threads_[in * 32 + unsigned(std::countr_zero(lanes))].what;
  for (unsigned lane = 0; lane < 32; ++lane) {
    const auto& other = threads_[std::min(in * 32 + lane, unsigned(threads_.size()) - 1)].what;
    if ((lanes >> lane & 1U) != 0
        && (other.mask != mask || other.step != first.step || !same(other.where, first.where))) {
      failure_ = described(cudaErrorLaunchFailure, who_waits_where());
      return;
    }
  }
  std::uint64_t results[32] = {};
  for (unsigned lane = 0; lane < 32 && !failure_; ++lane)
    if ((lanes >> lane & 1U) != 0)
      results[lane] = result_of(in, lane, lanes);
  if (failure_)
    return;
  warps_[in].waiting &= ~lanes;
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((lanes >> lane & 1U) != 0)
      make_ready(in * 32 + lane, results[lane]);
}

std::uint64_t block_runner::result_of(unsigned in, unsigned lane, unsigned lanes) {
  const auto step = threads_[in * 32 + lane].what.step;
  if (step == warp_step::wait)
    return 0;
  if (step <= warp_step::exclusive)
    return exchanged(in, lane, lanes);
  const auto bits = [&](unsigned of) { return threads_[in * 32 + of].what.bits; };
  std::uint64_t result = step == warp_step::ballot ? 0 : bits(unsigned(std::countr_zero(lanes)));
  for (unsigned other = 0; other < 32; ++other) {
    if ((lanes >> other & 1U) == 0)
      continue;
    const bool first = other == unsigned(std::countr_zero(lanes));
    switch (step) {
      case warp_step::ballot:
        result |= std::uint64_t(bits(other) != 0) << other;
        break;
      case warp_step::add:
        result += first ? 0 : bits(other);
        break;
      case warp_step::least:
        result = std::uint64_t(std::min(std::int64_t(result), std::int64_t(bits(other))));
        break;
      case warp_step::most:
        result = std::uint64_t(std::max(std::int64_t(result), std::int64_t(bits(other))));
        break;
      case warp_step::and_:
        result &= bits(other);
        break;
      case warp_step::or_:
        result |= bits(other);
        break;
      case warp_step::xor_:
        result ^= first ? 0 : bits(other);
        break;
      default:
        break;
    }
  }
  return result;
}

/// The value of the requested lane; the lane's own value if that lane is outside its group of
/// `width`.
std::uint64_t block_runner::exchanged(unsigned in, unsigned lane, unsigned lanes) {
  const auto& step = threads_[in * 32 + lane].what;
  const int first = int(lane) & ~(step.width - 1);
  const int last = first + step.width - 1;
  int from = int(lane);
  switch (step.step) {
    case warp_step::index:
      from = first + (step.argument & (step.width - 1));
      break;
    case warp_step::up:
      from -= from - step.argument >= first ? step.argument : 0;
      break;
    case warp_step::down:
      from += from + step.argument <= last ? step.argument : 0;
      break;
    default:
      from = (from ^ step.argument) <= last ? from ^ step.argument : from;
      break;
  }
  if ((lanes >> from & 1U) == 0) {
    failure_ = described(cudaErrorLaunchFailure,
                         "thread " + name(in * 32 + lane) + " reads lane " + std::to_string(from)
                             + " of its warp, which has ended or is not in the mask, at "
                             + text_of(step.where));
    return 0;
  }
  return threads_[in * 32 + unsigned(from)].what.bits;
}

std::string block_runner::lane_names(unsigned lanes) {
  std::string text;
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((lanes >> lane & 1U) != 0)
      text += (text.empty() ? "" : ", ") + std::to_string(lane);
  return text;
}

}  // namespace troupe::emulator
