#include "runtime/collective/nccl_rank.hpp"

#include "runtime/core/error.hpp"

namespace troupe::runtime {

void nccl_rank::connect() {
  if (end_ != nullptr || size_ == 1)
    return;
  auto end = group_->make_end(rank_, device_);
  const auto& of = group_->terms();
  std::optional<nccl_id> id;
  const auto has_come = [&] {
    id = of.ids->find(group_->name(), of.generation);
    return id.has_value();
  };
  group_->carry_out(rank_, *end, [&](nccl_end& x) {
    if (rank_ == 0)
      id = of.ids->made(group_->name(), of.generation);
    else
      group_->wait_until(rank_, has_come);
    x.join(*id, size_, rank_);
  });
  group_->connected(end);
  end_ = std::move(end);
}

void nccl_rank::prepare(stream& stream) {
  ensure(stream.queue() != nullptr && stream.queue()->device() == device_,
         "COLLECTIVE-5: a rank's streams are on its device");
  connect();
  if (queues_.insert(stream.queue()).second)
    group_->works_on(stream.queue());
  stream.depends_on(group_, std::uint64_t(rank_));
}

void nccl_rank::barrier() {
  if (size_ == 1)
    return;
  if (own_ == nullptr) {
    own_ = std::make_unique<stream>(kernels::backend::cuda, 1, memory_pool(), device_);
    token_ = own_->allocate(std::size_t(size_));
  }
  prepare(*own_);
  group_->enter(rank_, collective_call::barrier());
  enqueue(*own_, [&](nccl_end& x) {
    x.all_gather(own_->queue()->native(), token_.get() + rank_, token_.get(), 1);
  });
  const auto met = own_->mark();
  group_->wait_until(rank_, [&] { return met->passed(); });
  group_->check();
}

void nccl_rank::call(const std::function<void(nccl_end&)>& of_nccl) {
  group_->carry_out(rank_, *end_, of_nccl);
}

void nccl_rank::enqueue(stream& stream, const std::function<void(nccl_end&)>& of_nccl) {
  auto before = stream.mark();
  call(of_nccl);
  group_->queued(rank_, std::move(before), stream.mark());
}

// ncclCommSplit requires that no operation is in progress.
std::unique_ptr<nccl_communicator> nccl_rank::split(axis_set along, int color, int key) {
  connect();
  if (size_ == 1) {
    if (color < 0)
      return nullptr;
    auto child = group_->child(along, rank_, color);
    child->sized(1);
    return std::make_unique<nccl_rank>(std::move(child), 0, device_);
  }
  group_->enter(rank_, collective_call::split());
  for (const auto& queue : queues_) {
    const auto done = queue->mark();
    group_->wait_until(rank_, [&] { return done->passed(); });
  }
  if (color < 0) {
    call([](nccl_end& x) { x.split_for_others(); });
    return nullptr;
  }
  auto child = group_->child(along, rank_, color);
  auto end = child->make_end(rank_, device_);
  child->carry_out(rank_, *end, [&](nccl_end& x) { x.split_from(*end_, color, key); });
  int rank = 0;
  child->carry_out(rank_, *end, [&](nccl_end& x) {
    rank = x.rank();
    child->sized(x.size());
  });
  child->connected(end);
  return std::make_unique<nccl_rank>(std::move(child), rank, device_, std::move(end));
}

std::shared_ptr<void> nccl_rank::hold(void* at, std::size_t bytes) {
  connect();
  if (size_ == 1)
    return std::make_shared<char>();
  void* handle = nullptr;
  call([&](nccl_end& x) { handle = x.hold(at, bytes); });
  return {handle, [end = end_](void* held) { end->let_go(held); }};
}

}  // namespace troupe::runtime
