#include "runtime/family/tasks.hpp"

#include "runtime/core/error.hpp"
#include "runtime/data/masking_tokens.hpp"
#include "runtime/data/numpy_random.hpp"
#include "runtime/data/task_files.hpp"
#include "runtime/family/masked_samples.hpp"
#include "runtime/model/layers/linear.hpp"
#include "runtime/tensor/moves.hpp"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::int64_t most_question_tokens = 128;  // of RACE, as in Megatron-LM
const loss_spec task_loss{.name = "task loss"};
const loss_spec accuracy{.name = "accuracy", .weight = 0};

/// The first row of each text.
row_numbers first_rows_of(stream& stream, const task_head_spec& x, std::int64_t samples) {
  return {
      constant(stream,
               fmt::format("first rows of {} x {} of {}", samples, x.task.choices(), x.sequence),
               {samples * x.task.choices()},
               [&](std::int64_t i) { return std::int32_t(i * x.sequence); }),
      samples * x.task.choices() * x.sequence};
}

variable with_extents(tape& tape, variable x, const shape& extents) {
  auto out = tape.make(x.data.view(extents), x.placements);
  if (x.gradient)
    tape.record([dx = x.gradient, dy = out.gradient, was = x.data.extents()](auto& on) {
      on.add(*dx, std::exchange(dy->sum, {}).view(was));
    });
  return out;
}

/// Samples whose largest logit, the first of equal ones, is that of the right class.
tensor right_answers(tape& tape,
                     const tensor& logits,
                     const tensor& classes,
                     const tensor& counted) {
  auto& stream = tape.stream();
  const auto right = elements_of<std::int32_t>(stream, classes);
  const auto counts = elements_of<float>(stream, counted);
  const auto K = logits.size() / std::int64_t(right.size());
  loss_value out;
  with_element(tape.type(), [&]<class T>(T) {
    const auto all = elements_of<T>(stream, logits);
    for (std::size_t b = 0; b < right.size(); ++b) {
      const auto row = all.begin() + std::int64_t(b) * K;
      const auto best = std::max_element(
          row, row + K, [](const auto& x, const auto& y) { return float(x) < float(y); });
      out.tokens += counts[b];
      out.total += best - row == right[b] ? counts[b] : 0;
    }
  });
  return loss_sums(stream, out);
}

/// Labelled texts of one part.
class task_dataset final : public sample_dataset {
 public:
  task_dataset(const task_model& of, const samples_request& from)
      : of_(of),
        samples_(read_task(of.task, files_of_task(of.task, from.part))),
        tokenizer_(masking_tokenizer(from.tokenizer)),
        marks_(pair_tokens_of(*tokenizer_)),
        size_(std::max<std::uint64_t>(from.samples.value_or(0), samples_.size())),
        evaluation_(from.evaluation),
        seed_(from.seed),
        trains_(from.part == data_split::train) {
    if (samples_.empty())
      throw input_error("the {} data of `model.task.kind` {} have no samples: name files with some",
                        to_string(from.part),
                        to_string(of.task.kind));
  }

  std::uint64_t size() const override { return size_; }
  batch_schema schema() const override { return task_schema(of_); }

  void fill(std::uint64_t i, const sample_view& out) const override {
    if (i >= size_)
      throw input_error("the labelled texts have {} samples, but not {}", size_, i);
    const auto n = samples_.size();
    const auto place = !trains_ && evaluation_ >= n ? i % evaluation_ : i % n;
    const bool counts = place < n;
    const auto& sample = samples_[trains_ ? order_of(i / n)->at(place) : counts ? place : 0];
    out.at<std::int32_t>("classes").front() = sample.label;
    out.at<float>("counted").front() = counts ? 1 : 0;
    for (std::size_t c = 0; c < sample.texts.size(); ++c)
      fill(sample.texts[c], std::int64_t(c) * of_.sequence, out);
  }

 private:
  using order = std::vector<std::uint32_t>;

  std::shared_ptr<const order> order_of(std::uint64_t epoch) const {
    const std::lock_guard lock(mutex_);
    if (!order_ || epoch_ != epoch) {
      order made(samples_.size());
      std::iota(made.begin(), made.end(), 0);
      numpy_random_state(std::uint32_t(seed_ + epoch)).shuffle(std::span(made));
      order_ = std::make_shared<const order>(std::move(made));
      epoch_ = epoch;
    }
    return order_;
  }

  /// Cuts a text at T - 1 tokens before the last [SEP], as Megatron-LM.
  void fill(const task_text& text, std::int64_t row, const sample_view& out) const {
    const auto T = std::size_t(of_.sequence);
    std::vector<std::int32_t> ids = {marks_.classify};
    tokenizer_->append(text.first, ids);
    if (of_.task.kind == task_kind::race)
      ids.resize(std::min<std::size_t>(ids.size(), 1 + most_question_tokens));
    ids.push_back(marks_.separator);
    const auto second = text.second ? ids.size() : T;
    if (text.second)
      tokenizer_->append(*text.second, ids);
    const bool cut = ids.size() >= T;
    ids.resize(std::min(ids.size(), T - 1));
    if (text.second || cut)
      ids.push_back(marks_.separator);
    const auto at
        = [&](const char* name) { return out.at<std::int32_t>(name).subspan(std::size_t(row), T); };
    const auto tokens = at("tokens"), positions = at("positions");
    std::ranges::fill(tokens, 0);
    std::ranges::copy(ids, tokens.begin());
    std::iota(positions.begin(), positions.end(), 0);
    if (of_.has_types) {
      const auto types = at("types");
      for (std::size_t t = 0; t < T; ++t)
        types[t] = second <= t && t < ids.size() ? 1 : 0;
      if (text.second)
        types[ids.size() - 1] = 1;  // also of a cut text
    }
    if (row > 0)
      out.cut(row);
    if (ids.size() < T)
      out.cut(row + std::int64_t(ids.size()));
  }

  task_model of_;
  std::vector<task_sample> samples_;
  std::unique_ptr<const tokenizer> tokenizer_;
  masked_pair_tokens marks_;
  std::uint64_t size_, evaluation_, seed_;
  bool trains_;
  mutable std::mutex mutex_;                    // guards the two below
  mutable std::shared_ptr<const order> order_;  // of epoch_; null: of none
  mutable std::uint64_t epoch_ = 0;
};

}  // namespace

void add(module_builder& to, const task_head_spec& x) {
  const auto whole = [&](const char* name, std::int64_t outputs) {
    return add_linear(to, linear_of_texts(name, outputs, x.hidden, x.init_std));
  };
  const bool chooses = x.task.choices() > 1;
  const auto pooler = whole("pooler.dense", x.hidden);
  const auto head = whole("classification_head", chooses ? 1 : x.task.classes());
  to.segment("head", [=](tape& tape, pass& p) {
    const auto samples = p.rows.samples.size();
    const auto first
        = gather_rows(tape, std::exchange(p.hidden, {}), first_rows_of(tape.stream(), x, samples));
    // Dropout asks for the number of rows of a sample, and for the samples.
    row_layout texts;
    texts.samples = p.rows.samples;
    texts.order = tensor({}, dtype::i32, {samples, x.task.choices()});
    auto logits = head(tape,
                       dropout(tape,
                               pooler(tape, first, kernels::epilogue::tanh),
                               p.dropout_rate(x.dropout),
                               p.dropout_key("head.dropout"),
                               texts));
    if (chooses)
      logits = with_extents(tape, std::move(logits), {samples, x.task.choices()});
    if (!p.batch.has("classes")) {
      p.logits = std::move(logits.data);
      return;
    }
    const auto placements = logits.placements;
    const auto &classes = p.batch.at("classes"), &counted = p.batch.at("counted");
    if (p.settings.losses)
      p.add_loss(accuracy.name, placements, right_answers(tape, logits.data, classes, counted));
    auto average = p.average(task_loss.weight);
    if (average.per_row)  // the update counts all rows of a sample, and the loss one
      average.scale /= float(x.sequence * x.task.choices());
    p.add_loss(task_loss.name,
               placements,
               cross_entropy(tape, std::move(logits), classes, counted, x.task.classes(), average));
  });
}

module_traits traits_of(const task_head_spec& x) {
  return {.width = x.hidden,
          .reads = {"classes", "counted"},
          .losses = {task_loss, accuracy},
          .gives_stream = false};
}

module_flops forward_flops(const task_head_spec& x, std::int64_t /*T*/) {
  const auto outputs = x.task.choices() > 1 ? 1 : x.task.classes();
  return {.parameters
          = 2 * double(x.task.choices()) * double(x.hidden) * double(x.hidden + outputs)};
}

batch_schema task_schema(const task_model& model) {
  batch_schema out{.documents_of = "tokens"};
  const auto add = [&](const char* name) {
    out.tensors.push_back({.name = name, .type = dtype::i32, .extents = {model.rows()}, .rows = 0});
  };
  add("tokens");
  add("positions");
  if (model.has_types)
    add("types");
  out.tensors.push_back({.name = "classes", .type = dtype::i32, .extents = {1}});
  out.tensors.push_back({.name = "counted", .type = dtype::f32, .extents = {1}});
  return out;
}

std::shared_ptr<const sample_dataset> open_task(const task_model& model,
                                                const samples_request& from) {
  return std::make_shared<task_dataset>(model, from);
}

std::vector<std::string> wrong_with_task(const task_model& model, const std::string& tokenizer) {
  const auto& task = model.task;
  std::vector<std::string> wrong;
  collect(wrong, [&] { pair_tokens_of(*masking_tokenizer(tokenizer)); });
  for (const auto* files : {&task.train, &task.valid})
    collect(wrong, [&] { read_task(task, task_files(task, *files), true); });
  return wrong;
}

std::vector<std::string> files_of_task(const task_settings& task, data_split part) {
  return part == data_split::train   ? task_files(task, task.train)
         : part == data_split::valid ? task_files(task, task.valid)
                                     : std::vector<std::string>();
}

std::uint64_t samples_of_task(const task_settings& task, data_split part) {
  return read_task(task, files_of_task(task, part)).size();
}

}  // namespace troupe::runtime
