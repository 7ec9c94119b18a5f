#include "runtime/trainer/memory_forecast.hpp"

#include "runtime/tensor/micro_batch.hpp"
#include "runtime/trainer/verification.hpp"

#include <algorithm>
#include <map>

namespace troupe::runtime {
namespace {

/// Everybody else is imagined.
class shadow_communicator final : public communicator {
 public:
  shadow_communicator(axis along, int rank, int size) : along_(along), rank_(rank), size_(size) {}

  axis along() const override { return along_; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override {}
  void all_reduce_sum(stream&, dtype, std::span<const void* const>, void*, std::int64_t) override {}
  void reduce_scatter_sum(stream&, dtype, std::span<const void* const>, void*, offsets) override {}
  void all_gather(stream&, const void*, void*, offsets) override {}
  void all_to_all(stream&, const void*, offsets, void*, offsets) override {}
  void broadcast(stream&, void*, std::int64_t, int) override {}

 private:
  axis along_;
  int rank_, size_;
};

/// One worker; its neighbours are played: what passes between them is held here.
class rehearsal {
 public:
  rehearsal(const training_job& job, const job_pipeline& pipeline, const coordinates& at)
      : job_(job),
        pipeline_(pipeline),
        pipeline_rank_(at[axis::pipeline]),
        tensor_(axis::tensor, at[axis::tensor], job.layout.tensor),
        data_(axis::data, at[axis::data] * copies(), data_ranks() * copies()),
        ties_(axis::pipeline, pipeline_rank_ == pipeline.first_rank() ? 0 : 1, 2),
        stream_(job.backend, job.threads_per_worker, pool_),
        worker_(settings_of(job, pipeline, pipeline_rank_),
                stream_,
                {.along = {{axis::tensor, job.layout.tensor > 1 ? &tensor_ : nullptr},
                           {axis::data, &data_},
                           {axis::pipeline, holds_tie() ? &ties_ : nullptr}}}) {}

  memory_forecast run() {
    auto out = at_rest();
    const auto before = std::int64_t(pool_.bytes_in_use());
    step();
    if (job_.recovery.verify_fraction > 0)
      out.verified = most_verified();
    out.activations = std::int64_t(pool_.peak_bytes()) - before;
    out.handoffs = handoffs();
    std::int64_t most = 0;
    for (const auto& x : out.handoffs)
      if (x.what.gradient) {
        const auto each = rounded(x.bytes);
        out.left_by_others += each * std::min(x.what.credits, rehearsed_microbatches());
        most = std::max(most, each);
      }
    out.left_by_others -= most;  // the rehearsal held the newest
    return out;
  }

  /// Without activations, which take a step.
  memory_forecast at_rest() {
    memory_forecast out;
    sizes(out);
    for (const auto& arrays : {worker_.parameters(), worker_.moments()})
      for (const auto& array : arrays)
        out.snapshot += std::int64_t(array.elements.size_bytes());
    return out;
  }

 private:
  int data_ranks() const {
    return std::max(1, job_.layout.world / (job_.layout.tensor * job_.layout.pipeline));
  }
  int copies() const { return pipeline_.schedule->copies(); }
  bool holds_tie() const {
    const auto first = pipeline_.first_rank(), last = pipeline_.last_rank();
    return job_.training.model.tied_embeddings && first != last
           && (pipeline_rank_ == first || pipeline_rank_ == last);
  }

  /// As the pool hands it out.
  static std::int64_t rounded(std::int64_t bytes) {
    memory_pool apart = memory_pool::shadow();
    const auto block = apart.allocate(std::size_t(bytes));
    return std::int64_t(apart.bytes_in_use());
  }

  std::vector<handoff_forecast> handoffs() const {
    std::vector<handoff_forecast> out;
    const int count = rehearsed_microbatches();
    const auto all = handoffs_of(*pipeline_.schedule->plain(count),
                                 *pipeline_.schedule->training_credits(count));
    for (const auto& x : all)
      if (x.from_rank == pipeline_rank_)
        out.push_back({x, handed_on_.at({x.from, x.gradient})});
    return out;
  }

  /// What stays from step to step, told apart.
  void sizes(memory_forecast& out) {
    const auto all = std::int64_t(pool_.bytes_in_use());
    const auto sizes = worker_.resident_elements();
    out.parameters = rounded(sizes.values * std::int64_t(size_of(job_.training.precision)));
    out.gradients = rounded(sizes.gradients * 4) * job_.layout.replicas_per_worker;
    if (worker_.estate() != nullptr)
      for (const auto& [id, part] : worker_.estate()->arrays(1)) {
        for (const auto* const array : {&part.arrays.weights, &part.arrays.kept})
          out.beside += rounded(std::int64_t(array->bytes()));
        out.state += std::int64_t(part.arrays.kept.bytes());
        for (const auto& [begin, end] : part.own_weights)
          out.state += (end - begin) * std::int64_t(sizeof(float));
      }
    out.optimizer = all - out.parameters - out.gradients - out.beside;
  }

  bundle batch() {
    const auto B = job_.training.batch.micro, T = job_.training.model.sequence,
               C = job_.training.model.hidden;
    stream others(job_.backend, 1, others_);
    micro_batch rows;
    for (auto* const x : {&rows.tokens, &rows.positions, &rows.labels})
      *x = tensor::empty<std::int32_t>(others, {B, T});
    rows.mask = tensor::empty<float>(others, {B, T});
    rows.samples = tensor::empty<std::uint64_t>(others, {B});
    auto out = to_bundle(rows);
    const bool rows_sharded = job_.layout.sequence_parallel && job_.layout.tensor > 1;
    const auto hidden = rows_sharded ? shape{B * T / job_.layout.tensor, C} : shape{B, T, C};
    out.add("hidden", with_element(job_.training.precision, [&]<class E>(E) {
              return tensor::empty<E>(others, hidden);
            }));
    return out;
  }

  bundle gradient_of(chunk_id chunk) {
    bundle out;
    if (!pipeline_.is_last(chunk))
      out.add("hidden", batch().at("hidden"));
    return out;
  }

  std::int64_t hidden_bytes() { return std::int64_t(batch().at("hidden").bytes()); }

  /// What went into a pass of the chunk, both ways, as another stage or the loader sent it.
  std::int64_t bytes_into(chunk_id chunk) {
    std::int64_t out = 0;
    for (const auto& [name, part] : batch()) {
      const bool used = name == "hidden"                     ? !pipeline_.is_first(chunk)
                        : name == "tokens"                   ? pipeline_.is_first(chunk)
                        : name == "labels" || name == "mask" ? pipeline_.is_last(chunk)
                                                             : true;
      out += used ? rounded(std::int64_t(part.bytes())) : 0;
    }
    for (const auto& [name, part] : gradient_of(chunk))
      out += rounded(std::int64_t(part.bytes()));
    return out;
  }

  std::int64_t most_verified() {
    for (const auto& x : pipeline_.schedule->hosted_by(pipeline_rank_)) {
      bytes_into_[x.chunk] = bytes_into(x.chunk);
      // Within a process the next stage holds what this one has handed on.
      bytes_out_[x.chunk] = pipeline_.is_last(x.chunk) ? 0 : rounded(hidden_bytes());
      gradients_[x.chunk] = rounded(worker_.gradient_elements(x.chunk) * 4);
    }
    constexpr std::uint64_t most_steps = 1000, most_asked = 200'000;
    const int each = most_microbatches(job_) / job_.layout.replicas_per_worker / copies();
    const int all = most_microbatches(job_) / copies();
    const auto hosted = pipeline_.schedule->hosted_by(pipeline_rank_);
    const auto asked = std::uint64_t(data_ranks()) * hosted.size() * std::uint64_t(all);
    const auto steps = std::clamp<std::uint64_t>(
        std::min(job_.train_iterations > 0 ? job_.train_iterations : most_steps,
                 most_asked / std::max<std::uint64_t>(1, asked)),
        1,
        most_steps);
    std::int64_t most = 0;
    for (int replica = 0; replica < data_ranks(); ++replica)
      for (std::uint64_t s = 1; s <= steps; ++s) {
        std::int64_t held = 0, one = 0;
        for (const auto& x : hosted) {
          const auto found = count_verified(job_.recovery.verify_fraction,
                                            job_.training.seed,
                                            step_id(s),
                                            {.replica = replica, .chunk = x.chunk, .copy = x.copy},
                                            all,
                                            each);
          const auto in = bytes_into_.at(x.chunk);
          const auto before = found.copied > 0 ? gradients_.at(x.chunk) : 0;
          held += found.all * (in + bytes_out_.at(x.chunk)) + found.copied * before;
          one = std::max(one, in + before);
        }
        most = std::max(most, held + one);
      }
    return most;
  }

  void step() {
    const int count = rehearsed_microbatches();
    const auto plan = pipeline_.schedule->training(count);
    worker_.begin_step({step_id(1),
                        true,
                        plan->microbatches_each(),
                        job_.training.batch.data_parallel * plan->copies});
    for (const auto& x : plan->ranks[std::size_t(pipeline_rank_)])
      act(x);
    for (auto& [chunk, added] : added_)
      worker_.compute_again(chunk, batch(), gradient_of(chunk), std::move(added));
    worker_.end_computing_again();
    for (int b = 0; b < worker_.buckets(); ++b)
      worker_.reduce_bucket(b, stream_);
    worker_.finish_reduction();
    if (worker_.estate() != nullptr)
      worker_.seal(0, {});
    worker_.update({1, 0, 1});
    worker_.gather();
  }

  /// Of 1F1B one micro-batch is like the other, once it has warmed up.
  int rehearsed_microbatches() const {
    const int all = most_microbatches(job_);
    return pipeline_.schedule->name() == "1f1b" ? std::min(all, job_.layout.pipeline + 2) : all;
  }

  void note(const action& x, const bundle& result) {
    std::int64_t bytes = 0;
    for (const auto& [name, part] : result)
      bytes += std::int64_t(part.bytes());
    auto& of = handed_on_[{x.chunk, x.kind != action_kind::forward}];
    of = std::max(of, bytes);
  }

  void act(const action& x) {
    const pass_key key{0, x.chunk, x.microbatch};
    const auto back = [&](action_kind kind, std::uint16_t block) {
      act({kind, x.chunk, x.microbatch, block, x.copy});
    };
    switch (x.kind) {
      case action_kind::forward:
        // The next stage keeps its input until it has come back.
        note(x, sent_[{x.chunk, x.microbatch}] = worker_.forward(key, batch()));
        return;
      case action_kind::recompute:
        return worker_.recompute(key, x.block);
      case action_kind::input_gradients:
        returned_ = worker_.input_gradients(key, batch(), x.block);
        note(x, returned_);
        sent_.erase({x.chunk, x.microbatch});
        return;
      case action_kind::weight_gradients:
        if (job_.recovery.verify_fraction > 0 && value(x.microbatch) == 0)
          return worker_.weight_gradients(key, x.block, added_[x.chunk]);
        return worker_.weight_gradients(key, x.block);
      case action_kind::backward:
        for (auto b = std::uint16_t(pipeline_.blocks[value(x.chunk)].size()); b-- > 0;) {
          back(action_kind::input_gradients, b);
          back(action_kind::weight_gradients, b);
        }
        return;
      default:  // what lowering adds costs no memory of ours
        return;
    }
  }

  const training_job& job_;
  const job_pipeline& pipeline_;
  int pipeline_rank_;
  shadow_communicator tensor_, data_, ties_;
  memory_pool pool_ = memory_pool::shadow(), others_ = memory_pool::shadow();
  stream stream_;
  worker worker_;
  std::map<std::pair<chunk_id, microbatch_id>, bundle> sent_;
  bundle returned_;
  std::map<chunk_id, added_gradients> added_;  ///< by the first micro-batch
  /// Bytes, of each hosted chunk.
  std::map<chunk_id, std::int64_t> bytes_into_, bytes_out_, gradients_;
  std::map<std::pair<chunk_id, bool>, std::int64_t> handed_on_;  ///< bytes; true: gradients
};

}  // namespace

memory_forecast forecast_memory(const training_job& job,
                                const job_pipeline& pipeline,
                                const coordinates& at) {
  return rehearsal(job, pipeline, at).run();
}

memory_forecast forecast_memory(const training_job& job, const coordinates& at) {
  return forecast_memory(job, pipeline_of(job), at);
}

std::vector<forecast_group> forecast_workers(const training_job& job) {
  std::vector<forecast_group> out;
  const auto pipeline = pipeline_of(job);
  const int tensor = job.layout.tensor;
  const int data = std::max(1, job.layout.world / (tensor * job.layout.pipeline));
  for (int p = 0; p < job.layout.pipeline; ++p) {
    out.push_back({p, 0, 0, tensor, forecast_memory(job, pipeline, {{axis::pipeline, p}})});
    for (int d = 1; d < data; ++d) {
      auto need = out.back().need;
      if (job.reduction.distributed_optimizer) {
        need = rehearsal(job, pipeline, {{axis::data, d}, {axis::pipeline, p}}).at_rest();
        need.activations = out.back().need.activations;
        need.left_by_others = out.back().need.left_by_others;
        need.verified = out.back().need.verified;
        need.handoffs = out.back().need.handoffs;
      }
      if (need == out.back().need) {
        out.back().last_data = d;
        out.back().ranks += tensor;
      } else {
        out.push_back({p, d, d, tensor, need});
      }
    }
  }
  return out;
}

}  // namespace troupe::runtime
