#include "runtime/forecast/memory_forecast.hpp"

#include "runtime/forecast/shadow_communicator.hpp"
#include "runtime/job/batches.hpp"
#include "runtime/model/layers/experts.hpp"
#include "runtime/trainer/verification.hpp"
#include "runtime/trainer/worker_of_job.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>

namespace troupe::runtime {
namespace {

/// Runs one worker alone and holds in this object what it exchanges with other stages.
class rehearsal {
 public:
  /// `copied`: the result of copies_handoffs.
  rehearsal(const training_job& job,
            const job_pipeline& pipeline,
            const coordinates& at,
            std::vector<char> copied,
            double expert_load)
      : job_(job),
        pipeline_(pipeline),
        copied_(std::move(copied)),
        pipeline_rank_(at[axis::pipeline]),
        seats_(seats_of(job.layout)),
        stream_(job.backend, job.threads_per_worker, pool_),
        worker_(loaded(settings_of(job, pipeline, pipeline_rank_), expert_load),
                stream_,
                join_groups(at)) {}

  memory_forecast run() {
    auto out = at_rest();
    const auto before = std::int64_t(pool_.bytes_in_use());
    step();
    if (job_.recovery.verify_fraction > 0)
      out.verified = most_verified();
    out.activations = std::int64_t(pool_.peak_bytes()) - before - passing_gradients();
    out.handoffs = handoffs();
    std::int64_t most = 0;
    for (const auto& x : out.handoffs)
      if (x.what.gradient) {
        const auto each = rounded(x.bytes);
        out.left_by_others += each * std::min(x.what.credits, rehearsed_microbatches());
        most = std::max(most, each);
      }
    out.left_by_others -= most;  // the peak of the rehearsal includes the newest
    out.received = received_;
    for (const auto& x : out.handoffs)  // its gradient, or the result of this gradient, is as large
      out.received[axis::pipeline] += x.bytes * (most_microbatches(job_) / copies());
    return out;
  }

  /// Everything but activations, which only a step shows.
  memory_forecast at_rest() {
    memory_forecast out;
    sizes(out);
    for (const auto& arrays : {worker_.parameters(), worker_.moments()})
      for (const auto& array : arrays)
        out.snapshot += std::int64_t(array.elements.size_bytes());
    return out;
  }

 private:
  static worker_settings loaded(worker_settings x, double expert_load) {
    x.expert_load = expert_load;
    return x;
  }
  worker_groups join_groups(const coordinates& at) {
    worker_groups out;
    for (const auto& x : groups_of(pipeline_, seats_, seats_.rank(at)))
      join(out, x, groups_.emplace_back(x.along, x.rank, int(x.members.size()), received_));
    return out;
  }
  int copies() const { return pipeline_.schedule->copies(); }

  /// Bytes that the pool allocates for an array of this size.
  static std::int64_t rounded(std::int64_t bytes) {
    memory_pool apart = memory_pool::shadow();
    const auto block = apart.allocate(std::size_t(bytes));
    return std::int64_t(apart.bytes_in_use());
  }

  std::vector<handoff_forecast> handoffs() const {
    std::vector<handoff_forecast> out;
    for (const auto& x : all_handoffs())
      if (x.from_rank == pipeline_rank_)
        out.push_back({x, handed_on_.at({x.from, x.gradient})});
    return out;
  }

  std::vector<handoff> all_handoffs() const {
    const int count = rehearsed_microbatches();
    return handoffs_of(*pipeline_.schedule->plain(count),
                       *pipeline_.schedule->training_credits(count));
  }

  /// Fills in the memory that stays allocated between steps, by kind.
  void sizes(memory_forecast& out) {
    const auto all = std::int64_t(pool_.bytes_in_use());
    out.parameters = bytes_of_values(true) + bytes_of_values(false);
    out.gradients = bytes_of_gradients(true) + passing_gradients();
    if (worker_.estate() != nullptr)
      for (const auto& [id, part] : worker_.estate()->arrays(1)) {
        for (const auto* const array : {&part.arrays.weights, &part.arrays.kept})
          out.beside += rounded(std::int64_t(array->bytes()));
        out.state += std::int64_t(part.arrays.kept.bytes());
        for (const auto& [begin, end] : part.own_weights)
          out.state += (end - begin) * std::int64_t(sizeof(float));
      }
    out.optimizer = all - out.parameters - bytes_of_gradients(true) - out.beside;
  }

  /// Bytes that the pool allocates: gradients that stay between steps, or the others.
  std::int64_t bytes_of_gradients(bool stay) const {
    std::int64_t sum = 0;
    for (const auto& x : worker_.gradient_arrays())
      sum += x.stays == stay ? rounded(x.elements * 4) : 0;
    return sum;
  }
  /// The bytes that they need beyond the memory of the values.
  std::int64_t passing_gradients() const {
    return bytes_of_gradients(false) - bytes_of_values(false);
  }

  std::int64_t bytes_of_values(bool stay) const {
    std::int64_t sum = 0;
    for (const auto& x : worker_.value_arrays())
      sum += x.stays == stay ? rounded(x.elements * std::int64_t(size_of(job_.training.precision)))
                             : 0;
    return sum;
  }

  /// A micro-batch, with the streams that cross the cut. `copied`: what crosses it is in this
  /// worker's memory too.
  bundle batch(const model_cut& cut, bool copied) {
    const auto& model = worker_.settings().model;
    const auto schema = schema_of(job_);
    const auto B = job_.training.batch.micro;
    stream others(job_.backend, 1, others_);
    auto& maker = copied ? stream_ : others;
    auto out
        = empty_batch(schema, B, [&](const std::string& name, std::size_t bytes) -> memory_block {
            const bool crosses = std::ranges::find(cut.inputs, name) != cut.inputs.end();
            return (crosses ? maker : others).allocate(bytes);
          });
    const bool rows_sharded = job_.layout.sequence_parallel && job_.layout.tensor > 1;
    for (const auto& name : cut.streams) {
      const auto& of = model.stream_of(name);
      const auto T = schema.rows_of(of.positions), C = of.width;
      const auto hidden = rows_sharded ? shape{B * T / job_.layout.tensor, C} : shape{B, T, C};
      out.add(name, with_element(job_.training.precision, [&]<class E>(E) {
                return tensor::empty<E>(maker, hidden);
              }));
    }
    return out;
  }

  /// The streams that leave a chunk, or their gradients.
  bundle after(chunk_id chunk) {
    const auto& cut = pipeline_.flow(chunk).after;
    const auto all = batch(cut, false);
    bundle out;
    for (const auto& name : cut.streams)
      out.add(name, all.at(name));
    return out;
  }

  static std::int64_t rounded(const bundle& x) {
    std::int64_t out = 0;
    for (const auto& [name, part] : x)
      out += rounded(std::int64_t(part.bytes()));
    return out;
  }

  /// Bytes of the inputs of the chunk's forward and backward pass, as another stage or the loader
  /// sent them.
  std::int64_t bytes_into(chunk_id chunk) {
    const auto& flow = pipeline_.flow(chunk);
    const auto all = batch(flow.before, false);
    bundle in;
    for (const auto* const names : {&flow.batch, &flow.before.streams, &flow.before.inputs})
      for (const auto& name : *names)
        if (all.has(name))
          in.add(name, all.at(name));
    return rounded(in) + rounded(after(chunk));
  }

  std::int64_t most_verified() {
    for (const auto& x : pipeline_.schedule->hosted_by(pipeline_rank_)) {
      bytes_into_[x.chunk] = bytes_into(x.chunk);
      // Within a process the next stage holds the results of this one.
      bytes_out_[x.chunk] = rounded(after(x.chunk));
      gradients_[x.chunk] = rounded(worker_.gradient_elements(x.chunk) * 4);
    }
    constexpr std::uint64_t most_steps = 1000, most_asked = 200'000;
    const int each = most_microbatches(job_) / job_.layout.replicas_per_worker / copies();
    const int all = most_microbatches(job_) / copies();
    const auto hosted = pipeline_.schedule->hosted_by(pipeline_rank_);
    const auto asked = std::uint64_t(seats_.replicas()) * hosted.size() * std::uint64_t(all);
    const auto steps = std::clamp<std::uint64_t>(
        std::min(job_.train_iterations > 0 ? job_.train_iterations : most_steps,
                 most_asked / std::max<std::uint64_t>(1, asked)),
        1,
        most_steps);
    const int span = seats_.span();
    std::int64_t most = 0;
    for (int replica = 0; replica < seats_.replicas(); ++replica)
      for (std::uint64_t s = 1; s <= steps; ++s) {
        std::int64_t held = 0, one = 0;
        for (const auto& x : hosted) {
          const auto found
              = count_verified(job_.recovery.verify_fraction,
                               job_.training.seed,
                               step_id(s),
                               {.replica = replica, .span = span, .chunk = x.chunk, .copy = x.copy},
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
    for (const auto& x : all_handoffs())
      if (x.from_rank == pipeline_rank_ && !x.gradient && is_copied(x.to_rank))
        credits_[{x.from, x.copy}] = std::size_t(x.credits);
    worker_.begin_step({step_id(1),
                        true,
                        plan->microbatches_each(),
                        job_.training.batch.data_parallel * plan->copies});
    received_ = {};
    for (const auto& x : plan->ranks[std::size_t(pipeline_rank_)])
      act(x);
    for (const auto& row : axis_table())
      received_[row.id] = received_[row.id] / count * most_microbatches(job_);
    const auto of_passes = received_;
    for (auto& [chunk, added] : added_)
      worker_.compute_again(
          chunk, batch(pipeline_.flow(chunk).before, false), after(chunk), std::move(added));
    worker_.end_computing_again();
    received_ = of_passes;
    for (int b = 0; b < worker_.buckets(); ++b)
      worker_.reduce_bucket(b, stream_);
    worker_.finish_reduction();
    if (worker_.estate() != nullptr)
      worker_.seal(0, {});
    worker_.update({1, 0, 1});
    worker_.drop_gradients();
    worker_.gather();
  }

  /// With 1F1B all micro-batches after the warm-up need the same memory.
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

  bool is_copied(int pipeline_rank) const { return copied_[std::size_t(pipeline_rank)] != 0; }

  bool takes_copy(const action& x) const {
    const auto& flow = pipeline_.flow(x.chunk);
    if (x.kind == action_kind::forward)
      return flow.before.is_crossed()
             && is_copied(pipeline_.schedule->rank_of(chunk_id(value(x.chunk) - 1), x.copy));
    const auto& blocks = pipeline_.blocks[value(x.chunk)];
    return x.block + 1U == std::max<std::size_t>(blocks.size(), 1) && !flow.after.streams.empty()
           && is_copied(pipeline_.schedule->rank_of(chunk_id(value(x.chunk) + 1), x.copy));
  }

  /// Keeps the result until its gradient comes back. A receiver that takes copies leaves at most as
  /// many results here as it has credits.
  void send(const action& x, const bundle& result) {
    note(x, result);
    sent_[{x.chunk, x.microbatch}] = result;
    const auto credits = credits_.find({x.chunk, x.copy});
    if (credits == credits_.end())
      return;
    auto& left = left_[x.chunk];
    left.push_back(x.microbatch);
    if (left.size() <= credits->second)
      return;
    sent_.erase({x.chunk, left.front()});
    left.pop_front();
  }

  void act(const action& x) {
    const pass_key key{0, x.chunk, x.microbatch};
    const auto& flow = pipeline_.flow(x.chunk);
    const auto back = [&](action_kind kind, std::uint16_t block) {
      act({kind, x.chunk, x.microbatch, block, x.copy});
    };
    switch (x.kind) {
      case action_kind::forward:
        return send(x, worker_.forward(key, batch(flow.before, takes_copy(x))));
      case action_kind::recompute:
        return worker_.recompute(key, x.block);
      case action_kind::input_gradients:
        returned_ = worker_.input_gradients(key, batch(flow.after, takes_copy(x)), x.block);
        note(x, returned_);
        sent_.erase({x.chunk, x.microbatch});
        std::erase(left_[x.chunk], x.microbatch);
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
      default:  // what lowering adds needs no memory here
        return;
    }
  }

  const training_job& job_;
  const job_pipeline& pipeline_;
  const std::vector<char> copied_;
  int pipeline_rank_;
  const seats seats_;
  axis_map<std::int64_t> received_;
  std::deque<shadow_communicator> groups_;
  memory_pool pool_ = memory_pool::shadow(), others_ = memory_pool::shadow();
  stream stream_;
  worker worker_;
  std::map<std::pair<chunk_id, microbatch_id>, bundle> sent_;
  std::map<std::pair<chunk_id, copy_id>, std::size_t> credits_;  ///< of receivers that take copies
  /// Results in sent_ that such receivers have not taken; a chunk has one copy.
  std::map<chunk_id, std::deque<microbatch_id>> left_;
  bundle returned_;
  std::map<chunk_id, added_gradients> added_;  ///< of the first micro-batch
  /// Bytes for each hosted chunk.
  std::map<chunk_id, std::int64_t> bytes_into_, bytes_out_, gradients_;
  std::map<std::pair<chunk_id, bool>, std::int64_t> handed_on_;  ///< bytes; true: gradients
};

}  // namespace

std::vector<char> copies_handoffs(const training_job& job, const coordinates& at) {
  const auto& l = job.layout;
  std::vector<char> out(std::size_t(l.pipeline),
                        l.processes == 1 && job.transport == transports::ucx ? 1 : 0);
  if (l.processes == 1)
    return out;
  const auto ranks = seats_of(l);
  const auto placed = placed_of(l);
  const int own = placed.process_of(ranks.rank(at));
  for (int p = 0; p < l.pipeline; ++p) {
    const int other = ranks.rank(at.with(axis::pipeline, p));
    out[std::size_t(p)] = placed.process_of(other) != own ? 1 : 0;
  }
  return out;
}

memory_forecast forecast_memory(const training_job& job,
                                const job_pipeline& pipeline,
                                const coordinates& at,
                                double expert_load) {
  return rehearsal(job, pipeline, at, copies_handoffs(job, at), expert_load).run();
}

memory_forecast forecast_memory(const training_job& job, const coordinates& at) {
  return forecast_memory(job, pipeline_of(job), at);
}

namespace {

/// Null: the unit has no experts.
const experts_spec* experts_in(const model_unit& unit) {
  if (const auto* const layer = unit.module.get_if<layer_spec>())
    for (const auto& sublayer : layer->sublayers)
      if (const auto* const residual = sublayer.get_if<residual_sublayer>())
        if (const auto* const found = residual->body.get_if<experts_spec>())
          return found;
  return nullptr;
}

}  // namespace

double most_expert_load(const training_job& job) {
  const auto& l = job.layout;
  const auto model = spec_of(job.training);
  const auto rows = job.training.batch.micro * model.sequence / l.tensor;
  double out = 0;
  for (const auto& unit : model.units)
    if (const auto* const found = experts_in(unit)) {
      const auto& x = found->router;
      double most = double(l.expert * std::min(x.chosen, x.experts / l.expert)) / double(x.chosen);
      if (x.capacity > 0)
        most = std::min(most,
                        double(capacity_of(rows, x.chosen, x.experts, x.capacity) * x.experts)
                            / double(rows * x.chosen));
      out = std::max(out, most);
    }
  return out;
}

namespace {

/// The union over these ranks: a neighbour counts if any of them exchanges copies with it.
std::vector<char> copies_of_any(const training_job& job,
                                const seats& all,
                                const std::vector<int>& ranks) {
  std::vector<char> out(std::size_t(job.layout.pipeline), 0);
  for (const int rank : ranks) {
    const auto more = copies_handoffs(job, all.at(rank));
    std::transform(out.begin(), out.end(), more.begin(), out.begin(), [](char a, char b) {
      return std::max(a, b);
    });
  }
  return out;
}

}  // namespace

std::vector<forecast_group> forecast_workers(const training_job& job, double expert_load) {
  std::vector<forecast_group> out;
  const auto pipeline = pipeline_of(job);
  const auto all = seats_of(job.layout);
  for (int p = 0; p < job.layout.pipeline; ++p) {
    std::vector<char> copied;  // of the data rank before
    for (int d = 0; d < all.replicas(); ++d) {
      const coordinates at = {{axis::data, d}, {axis::pipeline, p}};
      auto ranks = all.followers(all.rank(at));
      ranks.push_back(all.rank(at));
      const auto before = std::exchange(copied, copies_of_any(job, all, ranks));
      const bool alike = d > 0 && copied == before;
      auto need = alike ? out.back().need : rehearsal(job, pipeline, at, copied, expert_load).run();
      if (alike && job.reduction.distributed_optimizer) {
        need = rehearsal(job, pipeline, at, copied, expert_load).at_rest();
        need.activations = out.back().need.activations;
        need.left_by_others = out.back().need.left_by_others;
        need.verified = out.back().need.verified;
        need.handoffs = out.back().need.handoffs;
        need.received = out.back().need.received;
      }
      if (d > 0 && need == out.back().need) {
        out.back().last_data = d;
        out.back().ranks += int(ranks.size());
      } else {
        out.push_back({p, d, d, int(ranks.size()), need});
      }
    }
  }
  return out;
}

}  // namespace troupe::runtime
