#include "actors/command/hub_models.hpp"
#include "actors/command/resolve_parts.hpp"
#include "runtime/checkpoint/hub.hpp"

namespace troupe::command {
namespace {

/// Throws if the files are too small for the model, before its memory is forecast.
void require_weights_of(const runtime::model_description& model,
                        const std::filesystem::path& folder) {
  std::error_code failure;
  std::uint64_t bytes = 0;
  for (std::filesystem::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure))
    if (at->path().extension() == ".safetensors" && at->is_regular_file(failure))
      bytes += at->file_size(failure);
  if (bytes > 0 && std::uint64_t(runtime::parameter_count(model)) > bytes)
    throw runtime::input_error(
        "--load-hf '{}': config.json describes {} parameters, but the files have only {} bytes; "
        "the folder is incomplete or belongs to another model",
        folder.string(),
        runtime::parameter_count(model),
        bytes);
}

std::string text_of_hub(const std::filesystem::path& folder, const std::filesystem::path& hub) try {
  return runtime::read_hub_config(folder);
} catch (const runtime::input_error& failure) {
  throw runtime::input_error("--load-hf '{}': {}", hub.string(), failure.what());
}

}  // namespace

std::optional<runtime::model_description> shape_of(const training_flags& flags, sentences& wrong) {
  const auto& hub = flags.job.checkpoints.load_hub;
  const auto& family = *flags.family;
  if (hub.empty())
    return family.resolve(flags.model, flags.given, wrong);
  const auto folder = hub_or_local_folder("--load-hf", hub, runtime::hub_files::shape);
  const auto there = runtime::hub_config(text_of_hub(folder, hub),
                                         fmt::format("'{}'", (folder / "config.json").string()));
  if (&there.family() != &family)
    throw usage_error("--load-hf '{}' has {}: train it by `troupe train {}`",
                      hub.string(),
                      there.family().title(),
                      there.family().name());
  require_weights_of(there, hub);
  return family.resolve_hub(there, flags.model, flags.given, hub.string(), wrong);
}

}  // namespace troupe::command
