"""The trace of one step of PyTorch, in Chrome's format, with every kernel on the GPU."""
import torch


def profile(step, path):
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as profiler:
        step()
    profiler.export_chrome_trace(path)
