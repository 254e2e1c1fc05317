"""From a data folder to a written count: files, report, tracks and videos."""
