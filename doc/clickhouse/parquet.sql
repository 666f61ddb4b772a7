-- All allocations of a run as Parquet, for DuckDB, Spark and pandas: {run:String}, {parquet:String} is the file.
INSERT INTO FUNCTION file({parquet:String}, 'Parquet')
SELECT * FROM tidemark.allocation FINAL WHERE run = {run:String} ORDER BY rank, allocation_id
SETTINGS output_format_parquet_compression_method = 'zstd', output_format_parquet_string_as_string = 1;
